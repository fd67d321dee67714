"""Measured energy: what ``energy_meter`` reads while a client trains, in place of the formula's computing energy.

A meter reads a counter before and after a client's training, upload not included. From the next round on the client
reports what its last training took an epoch, times ``local_epochs``, and the formula's upload; round 0 is read as well.
A client that was not read yet, since it joined later, reports the formula's joules times what the clients read so far
took to theirs. A round charges what was reported before it, so that its budget holds whatever is read; what was read
is ``last_round.measured_j`` and may be more. A client that reports more than the budget trains no more, and is not read
again. ``budget_share`` is a share of what the live clients report after round 0, so trials differ a little in joules;
for a comparison on equal joules give ``budget_j``. Measured costs are not the same in two runs, and with them neither
are rows. ``warmup_energy_j`` remains the formula's.

Counters count all that a device does, idling too: nothing else should run on it. A worker's first training is done
twice, unread before it is read, since libraries warm up in it.

- ``nvml``: the total energy counter of the GPU that trains (Volta or newer, ``pip install -e ".[nvml]"``). It moves on
  every 20 to 100 ms; clients should train longer than that. GPUs that trainings share are refused.
- ``rapl``: the processor packages and their memory under ``/sys/class/powercap``, of Intel and AMD on Linux, if
  clients train on the CPU. Kernels let only root read it, unless ``energy_uj`` is made readable. Several trainings at
  once are refused.
- ``MODULE:NAME``: a function without arguments that returns the joules counted so far, called in each process that
  trains; that nothing else is counted in them is up to you.

Where ``nvml`` or ``rapl`` cannot be read, one line says why and costs are the formula's. A reading that is no finite
number, goes back or adds more than 1e12 J for one client ends the run with an error.
"""

from __future__ import annotations

from collections.abc import Callable

from envs.checks import not_negative
from envs.imports import import_name, is_import, own_code
from envs.training.energy_counters import COUNTERS

#: More than any client takes in a round; far from what a float cannot hold.
HIGHEST_READING_J = 1e12


class EnergyMeter:
    """Joules between ``start`` and ``stop``, by a function that returns those counted so far; errors have ``name``."""

    def __init__(self, name: str, read_j: Callable[[], float]) -> None:
        self._name, self._read_j = name, read_j
        self._started_j = 0.0

    def start(self) -> None:
        """Begins to count."""
        self._started_j = self._reading()

    def stop(self) -> float:
        """Returns the joules since ``start``.

        Raises:
            ValueError: If the counter cannot be read, went back or made a leap.
        """
        stopped_j = self._reading()
        if not 0.0 <= stopped_j - self._started_j <= HIGHEST_READING_J:
            raise ValueError(
                f"energy_meter {self._name} went from {self._started_j:g} to {stopped_j:g} J while a client trained; "
                f"it must count joules upwards, at most {HIGHEST_READING_J:g} of them for one client"
            )
        return stopped_j - self._started_j

    def _reading(self) -> float:
        with own_code(f"energy_meter {self._name} cannot be read any more"):  # a user's function, or a driver
            joules = self._read_j()
        not_negative(f"what energy_meter {self._name} returned", joules)
        return float(joules)


def open_meter(name: str, device: str) -> tuple[EnergyMeter | None, str]:
    """The meter for training on a torch device, or None for the formula and, in a line, why nothing can be read.

    Raises:
        ValueError: If ``name`` is ``MODULE:NAME`` and there is no such function.
    """
    if is_import(name):
        return EnergyMeter(name, own_counter(name)), ""
    if name not in COUNTERS:
        return None, ""
    try:
        return EnergyMeter(name, COUNTERS[name](device)), ""
    except OSError as error:
        return None, f"energy_meter {name} cannot be read, costs are the formula's: {error}"


def own_counter(name: str) -> Callable[[], float]:
    """The function that ``MODULE:NAME`` is, not called yet; ``ValueError`` if there is none."""
    read_j = import_name("energy_meter", name)
    if not callable(read_j):
        raise ValueError(f"energy_meter {name} is a {type(read_j).__name__}; name a function that returns joules")
    return read_j
