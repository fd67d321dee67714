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

Where ``nvml`` or ``rapl`` cannot be read, one line says why and costs are the formula's. A counter that could be read
before and then raises an error leaves a reading out: its client reports what it reported before, ``measured_j`` of the
round is None, and a warning says so once. A warning also names a meter that counted nothing while a client trained. A
reading that is no finite number, goes back or adds more than 1e12 J for one client ends the run with an error, and so
does a function that raises one when it is first called.

What is read does not depend on ``cpu_freq_hz``, so that ``device_changes`` and ``set_cpu_freq_hz`` are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from envs.checks import described, not_negative
from envs.imports import import_function, is_import
from envs.training.energy_counters import COUNTERS

#: More than any client takes in a round; far from what a float cannot hold.
HIGHEST_READING_J = 1e12


class MissingReading(Exception):
    """A counter that could be read before cannot be now; the text says why."""


class EnergyMeter:
    """Joules between ``start`` and ``stop``.

    Args:
        name: What ``energy_meter`` calls it, for errors.
        read_j: Returns the joules counted so far.
        was_read: Whether ``read_j`` has worked before. An error of its first call is not passed over.
    """

    def __init__(self, name: str, read_j: Callable[[], float], *, was_read: bool = False) -> None:
        self._name, self._read_j, self._was_read = name, read_j, was_read
        self._started_j: float | MissingReading = 0.0

    def start(self) -> None:
        """Begins to count.

        Raises:
            ValueError: If what the counter returns is no number of joules, or its first call fails.
        """
        try:
            self._started_j = self._reading()
        except MissingReading as missing:
            self._started_j = missing

    def stop(self) -> float:
        """Returns the joules since ``start``.

        Raises:
            MissingReading: If the counter could not be read, now or by ``start``.
            ValueError: As ``start``, and if it went back or made a leap.
        """
        stopped_j = self._reading()
        if isinstance(self._started_j, MissingReading):
            raise self._started_j
        if not 0.0 <= stopped_j - self._started_j <= HIGHEST_READING_J:
            raise ValueError(
                f"energy_meter {self._name} went from {self._started_j:g} to {stopped_j:g} J while a client trained; "
                f"it must count joules upwards, at most {HIGHEST_READING_J:g} of them for one client"
            )
        return stopped_j - self._started_j

    def _reading(self) -> float:
        try:
            joules = self._read_j()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a driver or a user's function does, ``sys.exit`` included
            if self._was_read:
                raise MissingReading(described(error)) from error
            raise ValueError(f"energy_meter {self._name} cannot be read: {described(error)}") from error
        not_negative(f"what energy_meter {self._name} returned", joules)
        self._was_read = True
        return float(joules)


def open_meter(name: str, device: str) -> tuple[EnergyMeter | None, str]:
    """Opens the meter for training on a torch device.

    Returns:
        The meter, or None for the formula; and a line that says why nothing can be read, or an empty text.

    Raises:
        ValueError: If ``name`` is ``MODULE:NAME`` and there is no such function.
    """
    if is_import(name):
        return EnergyMeter(name, own_counter(name)), ""
    if name not in COUNTERS:
        return None, ""
    try:
        return EnergyMeter(name, COUNTERS[name](device), was_read=True), ""
    except OSError as error:
        return None, f"energy_meter {name} cannot be read, costs are the formula's: {error}"


def own_counter(name: str) -> Callable[[], float]:
    """Imports the function that ``MODULE:NAME`` is, without calling it; ``ValueError`` if there is none."""
    return import_function("energy_meter", name, "a function that returns joules")
