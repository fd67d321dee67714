"""What a node's next training costs: as a counter read the last one, or by the formula where none can be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from flwr.app import MetricRecord, RecordDict

from envs.rules.energy import epoch_energy_j, upload_energy_j
from envs.training.energy_meter import EnergyMeter, MissingReading, open_meter

logger = logging.getLogger(__name__)

#: Where a node keeps what was read, which Flower keeps from message to message.
ENERGY, EPOCH_J = "energy", "epoch-j"


@contextmanager
def reading_energy(state: RecordDict, epochs: int, device: str = "cpu") -> Iterator[None]:
    """Reads the joules of a training, by NVML on a GPU and by RAPL on a CPU, and keeps those of one epoch.

    Nothing is kept where the counter cannot be read, stands still or goes back; the latest reading stays then.

    Args:
        state: ``context.state`` of the node.
        epochs: Local epochs of the training.
        device: The torch device that trains. Nothing else should run on it, since counters count all that it does.
    """
    meter, why = open_meter("nvml" if device.startswith("cuda") else "rapl", device)
    if meter is None:
        logger.warning("%s", why)
        yield
        return
    try:
        meter.start()
    except ValueError as error:
        logger.warning("no reading: %s", error)
    yield
    joules = _stopped(meter)
    if joules > 0.0:
        state[ENERGY] = MetricRecord({EPOCH_J: joules / epochs})


def cost_j(
    state: RecordDict, num_parameters: int, num_samples: int, num_values: int, cpu_freq_hz: float, epochs: int
) -> float:
    """Returns the joules of the next training and its upload.

    Args:
        state: ``context.state`` of the node; if it has no reading, an epoch is the formula's.
        num_parameters: Of the model.
        num_samples: Training samples.
        num_values: Numbers in a sample.
        cpu_freq_hz: CPU frequency.
        epochs: Local epochs.
    """
    upload_j = upload_energy_j(num_parameters)
    if ENERGY in state:
        return upload_j + epochs * float(state[ENERGY][EPOCH_J])
    return upload_j + epochs * epoch_energy_j(num_samples, num_values, cpu_freq_hz)


def _stopped(meter: EnergyMeter) -> float:
    try:
        joules = meter.stop()
    except (MissingReading, ValueError) as error:
        logger.warning("no reading: %s", error)
        return 0.0
    if joules == 0.0:
        logger.warning("the counter stood still while the node trained; train longer")
    return joules
