"""Rounds of Flower's simulation, on one Ray actor."""

from __future__ import annotations

import functools
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from experiments.benchmark.bare_fl import train
from experiments.benchmark.other_process import turns

client_app = ClientApp()


@functools.cache  # once in the actor
def work_of(file: str) -> dict[str, Any]:
    """Returns what is in the file."""
    torch.set_num_threads(1)
    return torch.load(file, weights_only=False)


@client_app.train()
def train_client(message: Message, context: Context) -> Message:
    """Trains the client of this node as the bare loop does."""
    work = work_of(str(message.content.config_records["config"]["file"]))
    images, labels = work["clients"][int(context.node_config["partition-id"])]
    model = work["model"]
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    train(model, images, labels, work["epochs"], work["batch_size"], work["lr"])
    metrics = MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


def main(file: str, clock: str) -> None:
    """Trains all clients of the file in every round of Flower's own loop, until there is no other turn."""
    next_turn, work, server_app = turns(clock), work_of(file), ServerApp()
    number = len(work["clients"])

    def wait(server_round: int, arrays: ArrayRecord) -> None:
        if not next_turn():
            raise SystemExit

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=number, min_available_nodes=number)
        config, arrays = ConfigRecord({"file": file}), ArrayRecord(work["model"].state_dict())
        strategy.start(grid, arrays, num_rounds=10**9, train_config=config, evaluate_fn=wait)

    one_actor: Any = {"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, number, backend_config=one_actor)
