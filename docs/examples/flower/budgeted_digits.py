"""Flower on digits: 20 non-IID clients, of which a trained selector picks whom to train under a budget in joules.

Run it by ``flwr run``, see docs/flower.md.
"""

import functools
from types import SimpleNamespace

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy
from envs import FederationConfig, load_dataset
from envs.data.client_samples import ResidentSamples, gather
from envs.data.partition import Partition
from envs.federation import Federation
from envs.training.local_training import evaluate, train_locally
from envs.training.models import build_model

#: The scenario ``digits``: who holds which samples, and what training a client costs.
CONFIG = FederationConfig(seed=7)

client_app = ClientApp()
server_app = ServerApp()


@functools.cache  # once in each process of the simulation
def clients() -> SimpleNamespace:
    """Samples and costs of all clients; a real one knows its own."""
    torch.set_num_threads(1)
    dataset, federation = load_dataset("digits"), Federation(CONFIG)
    samples = gather(dataset, Partition.of(CONFIG, dataset, CONFIG.seed))
    train, test = (ResidentSamples(split, dataset.max_value, "cpu") for split in (samples.train, samples.test))
    model = build_model("digits_cnn", dataset.input_shape, len(dataset.classes), seed=CONFIG.seed)
    return SimpleNamespace(train=train, test=test, model=model, federation=federation)


def own(message: Message, context: Context) -> tuple[int, torch.nn.Module]:
    """The client's number, and the model with the weights that were sent."""
    model = clients().model
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return int(context.node_config["partition-id"]), model


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Five local epochs."""
    client, model = own(message, context)
    rng = np.random.default_rng([CONFIG.seed, client, message.content["config"]["server-round"]])
    images, labels = clients().train.client(client)
    train_locally(model, images, labels, epochs=5, batch_size=CONFIG.local_batch_size, lr=CONFIG.learning_rate, rng=rng)
    metrics = MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@client_app.evaluate()
def report(message: Message, context: Context) -> Message:
    """What the selector goes by: accuracy on own test data, training samples, joules of the next round."""
    client, model = own(message, context)
    images, labels = clients().test.client(client)
    federation = clients().federation
    metrics = {
        "client-id": client,
        "accuracy": float(evaluate(model, images, labels, [len(labels)])[0][0]),
        "num-train-examples": int(federation.num_samples[client]),
        "cost-j": float(federation.start_costs_j[client]),
        "num-examples": len(labels),
    }
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    """FedAvg of those that the selector picks."""
    path = str(context.run_config["selector"])
    learn = str(context.run_config["learn"]) or None
    strategy = BudgetedStrategy(FedAvg(), ClientSelector.load(path), clients().federation.budget_j, learn=learn)
    rounds = int(context.run_config["rounds"])
    result = strategy.start(grid, ArrayRecord(clients().model.state_dict()), num_rounds=rounds)
    accuracies = [metrics["accuracy"] for metrics in result.evaluate_metrics_clientapp.values()]
    energy_mj = 1000 * sum(metrics["energy-j"] for metrics in result.train_metrics_clientapp.values())
    print(f"{path}: mean accuracy {np.mean(accuracies):.3f}, last {accuracies[-1]:.3f}, {energy_mj:.0f} mJ")
