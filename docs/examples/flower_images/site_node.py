"""A site: trains on its folder of images, and reports what the selector goes by."""

import functools
import json
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from node_energy import cost_j, reading_energy
from PIL import Image
from torch import nn

EPOCHS, BATCH, LEARNING_RATE, PIXELS = 5, 16, 0.1, 16

client_app = ClientApp()


def new_model(num_labels: int, seed: int) -> nn.Module:
    """Returns a small network for grey images of ``PIXELS`` x ``PIXELS``."""
    torch.manual_seed(seed)
    features = (nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    more = (nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*features, *more, nn.Linear(16 * (PIXELS // 4) ** 2, num_labels))


def site_folder(context: Context) -> Path:
    """Returns the site's folder: ``site`` in the node's config, or in a simulation the one of its number."""
    images = Path(str(context.run_config["images"]))
    if "site" in context.node_config:
        return images / str(context.node_config["site"])
    return sorted(folder for folder in images.iterdir() if folder.is_dir())[int(context.node_config["partition-id"])]


@functools.cache  # once in each process
def samples(site: Path, split: str, labels: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ``float32[n, 1, PIXELS, PIXELS]`` images in [0, 1] and ``int64[n]`` labels."""
    files = sorted((site / split).glob("*/*"))
    images = [Image.open(file).convert("L").resize((PIXELS, PIXELS)) for file in files]
    pixels = np.stack([np.asarray(image, dtype=np.float32) for image in images]) / 255
    numbers = [labels.split().index(file.parent.name) for file in files]
    return torch.from_numpy(pixels)[:, None], torch.tensor(numbers)


def model_of(message: Message, context: Context) -> nn.Module:
    """Returns the network with the weights that were sent."""
    model = new_model(len(str(context.run_config["labels"]).split()), seed=0)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Trains, and measures what it takes if ``energy`` is ``measured``."""
    torch.set_num_threads(1)
    model, site = model_of(message, context), site_folder(context)
    images, labels = samples(site, "train", str(context.run_config["labels"]))
    rng = np.random.default_rng([zlib.crc32(site.name.encode()), int(message.content["config"]["server-round"])])
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    measured = context.run_config["energy"] == "measured"
    with reading_energy(context.state, EPOCHS) if measured else nullcontext():
        for _ in range(EPOCHS):
            for batch in torch.from_numpy(rng.permutation(len(labels))).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
    metrics = MetricRecord({"num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Reports accuracy, training samples, the joules of the next round, and the site's name."""
    torch.set_num_threads(1)
    model, site = model_of(message, context), site_folder(context)
    images, labels = samples(site, "test", str(context.run_config["labels"]))
    with torch.no_grad():
        correct = (model(images).argmax(dim=1) == labels).float()
    num_samples = len(samples(site, "train", str(context.run_config["labels"]))[1])
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    freq_hz = float(json.loads((site / "device.json").read_text())["cpu_freq_hz"])
    metrics = {
        "accuracy": float(correct.mean()),
        "num-train-examples": num_samples,
        "cost-j": cost_j(context.state, num_parameters, num_samples, PIXELS**2, freq_hz, EPOCHS),
        "num-examples": len(labels),
    }
    records = {"metrics": MetricRecord(metrics), "name": ConfigRecord({"client-id": site.name})}
    return Message(RecordDict(records), reply_to=message)
