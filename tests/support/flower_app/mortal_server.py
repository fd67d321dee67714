"""A Flower app of one weight whose server is killed after a round, and goes on when it is run again."""

import os
import signal
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy

client_app = ClientApp()
server_app = ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Moves the weight by a tenth of the client's number."""
    moved = message.content["arrays"]["w"].numpy() * 0.5 + 0.1 * float(context.node_config["partition-id"])
    metrics = MetricRecord({"num-examples": 10})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(moved)}), "metrics": metrics}), reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Calls the weight an accuracy."""
    client = int(context.node_config["partition-id"])
    accuracy = float(np.clip(message.content["arrays"]["w"].numpy()[0], 0, 1))
    metrics = {"accuracy": accuracy, "num-train-examples": 10, "cost-j": 1.0 + client, "client-id": client}
    return Message(RecordDict({"metrics": MetricRecord(metrics | {"num-examples": 5})}), reply_to=message)


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    """Goes on from a checkpoint, if there is one."""
    folder = Path(str(context.run_config["folder"]))
    checkpoint, kill_after = folder / "run.safetensors", int(context.run_config["kill-after"])
    selector = ClientSelector.load(folder.parent / "selector.safetensors")
    strategy = BudgetedStrategy(
        FedAvg(),
        selector,
        6.0,
        learn="effects",
        batteries_j={"client_001": 5.0},
        history_path=folder / "history.jsonl",
        checkpoint_path=checkpoint,
    )
    if checkpoint.exists():
        strategy.load(checkpoint)

    def kill(server_round: int, arrays: ArrayRecord) -> None:
        if kill_after and server_round == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    rounds = int(context.run_config["rounds"])
    result = strategy.start(grid, ArrayRecord({"w": Array(np.array([0.25]))}), rounds, evaluate_fn=kill)
    print(f"ended with {result.arrays['w'].numpy()[0]!r}")
