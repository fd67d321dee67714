"""The networks that are trained federatedly, and their weights as one flat tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from envs.checks import SettingError, one_of
from envs.config import FederationConfig
from envs.imports import import_function, is_import, own_code


def build_model(name: str, input_shape: tuple[int, ...], num_classes: int, seed: int = 0) -> nn.Module:
    """Builds a network with weights drawn from ``seed``; the global generators are left as they were.

    Args:
        name: ``digits_cnn`` (1,370 parameters on 8x8), ``cnn`` (conv 20@5x5, pool, conv 50@5x5, pool, fc 500, fc:
            431,080 parameters on 28x28 grey images), ``cnn_small_color`` (conv 16, 32, 64@3x3, a pool after each, fc:
            33,834 parameters and 2,811,904 MACs on 3x32x32), ``resnet18`` (torchvision's with a 3x3 stem and no
            max-pool, as is usual for CIFAR: 11,173,962 parameters, 555,422,720 MACs) or ``mypackage:build``, a function
            of ``(input_shape, num_classes)`` that draws its weights from torch's global generator, as layers do.
        input_shape: Of a sample; (channels, height, width) of an image.
        num_classes: Outputs.
        seed: Seed of the initialisation.

    Raises:
        ValueError: If the images are too small for the network, or a user's own cannot be imported or does not fit.
    """
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        if is_import(name):
            return _build_own(name, input_shape, num_classes)
        _check_size(name, input_shape)
        return _BUILDERS[name](input_shape, num_classes)


def _build_own(name: str, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    build = import_function("model", name)
    with own_code(f"model {name}"):
        model = build(input_shape, num_classes)
    if not isinstance(model, nn.Module):
        raise ValueError(f"model {name} returned a {type(model).__name__}; it must return a torch.nn.Module")
    training = model.training
    with torch.no_grad(), own_code(f"model {name}, called with a batch of one sample"):
        found = tuple(model.eval()(torch.zeros(1, *input_shape)).shape)
    if found != (1, num_classes):
        raise ValueError(
            f"model {name} turns inputs of shape {(1, *input_shape)} into {found}; expected {(1, num_classes)}, one "
            "score per class"
        )
    return model.train(training)


def check_batch_of_one(model: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Runs ``model`` as it trains on a single sample, which batch norm may refuse; changes its statistics.

    Raises:
        ValueError: With the model's own reason.
    """
    what = "the model cannot train on a batch of one sample"
    with own_code(what), torch.random.fork_rng(devices=[]), torch.no_grad():
        model.train()(torch.zeros(1, *input_shape))


def check_last_batches(
    config: FederationConfig,
    model: nn.Module,
    input_shape: tuple[int, ...],
    num_samples: Sequence[int] | np.ndarray,
    names: Sequence[str],
) -> None:
    """Refuses a model that cannot train on the last batch of a client, before anything trains.

    Sizes are the same for all seeds.
    """
    batch_size = config.local_batch_size
    alone = [client for client, size in enumerate(num_samples) if (int(size) - 1) % batch_size == 0]
    if not alone or config.on_client_failure == "drop":
        return
    try:
        check_batch_of_one(model, input_shape)
    except ValueError as error:
        raise ValueError(
            f"{names[alone[0]]} has {num_samples[alone[0]]} training samples, in batches of {batch_size} its last one "
            f"has one sample: {error}; change train_samples, batch_size or model"
        ) from error


def num_parameters(model: nn.Module) -> int:
    """Returns the number of parameters, frozen ones included: what a client uploads."""
    return sum(parameter.numel() for parameter in model.parameters())


def output_bias(model: nn.Module, num_classes: int) -> slice:
    """Returns where the output layer's bias is among the flat weights.

    Raises:
        ValueError: If the model's last parameter is not one number for each class.
    """
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    if not shapes or shapes[-1] != (num_classes,):
        found = f"has shape {shapes[-1]}" if shapes else "is missing"
        raise ValueError(
            f"with_output_bias needs a model whose last parameter is the output layer's bias, of shape "
            f"{(num_classes,)}; this one's {found}: leave with_output_bias out, or change model"
        )
    end = num_parameters(model)
    return slice(end - num_classes, end)


def weight_tensors(model: nn.Module) -> list[Tensor]:
    """Returns what FedAvg averages, in the model's order: parameters, then floating-point buffers (batch norm's)."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    return [parameter.detach() for parameter in model.parameters()] + buffers


class FlatWeights:
    """A model's weights as one flat tensor. Looks its tensors up once, which takes longer than copying small ones.

    Args:
        model: On the device and in the memory format in which it stays.
    """

    def __init__(self, model: nn.Module) -> None:
        self._tensors = weight_tensors(model)
        self._sizes = [tensor.numel() for tensor in self._tensors]
        # Such as the number of batches a batch norm has seen: not averaged, so each client starts from the model's own.
        self._counters = [buffer for buffer in model.buffers() if not buffer.is_floating_point()]
        self._counters_at_first = [buffer.clone() for buffer in self._counters]

    def get(self) -> Tensor:
        """Returns a copy as ``float32[P]``, on the model's device."""
        return torch.cat([tensor.reshape(-1) for tensor in self._tensors])

    def cut(self, flat: Tensor) -> list[Tensor]:
        """Returns ``flat`` on the model's device as views in the shapes of the weights, to ``load`` many times."""
        views = flat.to(self._tensors[0].device).split(self._sizes)
        return [view.view(tensor.shape) for tensor, view in zip(self._tensors, views, strict=True)]

    def load(self, views: list[Tensor]) -> None:
        """Copies what ``cut`` returned into the weights in place, in their memory format; counters start over."""
        torch._foreach_copy_(self._tensors, views)
        for counter, at_first in zip(self._counters, self._counters_at_first, strict=True):
            counter.copy_(at_first)

    def set(self, flat: Tensor) -> None:
        """Copies ``flat`` into the weights in place."""
        self.load(self.cut(flat))


def get_flat(model: nn.Module) -> Tensor:
    """Returns a copy of a model's weights as ``float32[P]``, on its device."""
    return FlatWeights(model).get()


# Pooling before the ReLU gives the same values as after it, on a quarter of the numbers.


def _digits_cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * (height // 2) * (width // 2), num_classes),
    )


def _cnn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    channels, height, width = input_shape
    high, wide = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(50 * high * wide, 500),
        nn.ReLU(),
        nn.Linear(500, num_classes),
    )


def _cnn_small_color(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """A two-hundredth of ResNet-18's MACs, for CIFAR-10 on a CPU."""
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 8) * (width // 8), num_classes),
    )


def _resnet18(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    import torchvision  # seconds of every actor's start, for this network only

    model = torchvision.models.resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(input_shape[0], 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


_BUILDERS = {"digits_cnn": _digits_cnn, "cnn": _cnn, "cnn_small_color": _cnn_small_color, "resnet18": _resnet18}
_SMALLEST_SIDE = {"digits_cnn": 2, "cnn": 16, "cnn_small_color": 8, "resnet18": 8}


def _check_size(name: str, input_shape: tuple[int, ...]) -> None:
    one_of("model", name, _BUILDERS)
    if len(input_shape) != 3:
        raise SettingError("model", name, f"it takes images, not {input_shape}; name a custom one, MODULE:NAME")
    if min(input_shape[1:]) < _SMALLEST_SIDE[name]:
        needed = f"it needs images of at least {_SMALLEST_SIDE[name]} pixels a side"
        raise SettingError("model", name, f"{needed}, not {input_shape[1]}x{input_shape[2]}; choose another")
