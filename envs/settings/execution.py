"""Settings of who trains the clients, and with which resources."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from envs.checks import SettingError, number
from envs.settings.setting import NATURAL, POSITIVE, check_each, choice, documented, or_none, setting, simple

EXECUTORS = ("auto", "serial", "ray")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise SettingError(name, value, "it must be a text such as 'cpu' or 'cuda:0'")


def _gpus(name: str, value: Any) -> None:
    number(name, value)
    if not 0 <= value < math.inf or (value > 1 and value != int(value)):
        raise SettingError(name, value, "it must be a share from 0 to 1 or a whole number")


@documented
@dataclass(frozen=True)
class Execution:
    """Who trains the clients, and with which resources; validated on construction.

    Raises:
        SettingError: If a setting is out of range, or two contradict each other.
    """

    executor: str = setting(
        "auto",
        choice(EXECUTORS),
        """``serial`` (this process), ``ray`` (Ray actors) or ``auto`` (Ray actors where Ray runs and has GPUs for them,
        else serial). Same results to the last bit on CPU; see ``envs.training.ray_executor``.""",
    )
    num_actors: int | None = setting(
        None, or_none(NATURAL), "Ray actors; None for one per GPU, or 2 where there is none."
    )
    cpus_per_actor: float = setting(1.0, POSITIVE, "Cores that each actor takes.")
    gpus_per_actor: float | None = setting(
        None,
        or_none(simple(_gpus, "from 0 to 1, a whole number")),
        "GPUs that each actor takes; None for an equal share of all.",
    )
    device: str = setting(
        "cpu",
        simple(_text, "such as `cpu` or `cuda:0`"),
        "torch device of the training; Ray actors use the one that Ray gives them.",
    )

    def __post_init__(self) -> None:
        check_each(self)
        self._check_execution()

    def _check_execution(self) -> None:
        for name in ("num_actors", "cpus_per_actor", "gpus_per_actor"):
            value = getattr(self, name)
            if self.executor == "serial" and value is not None and value != getattr(Execution, name):
                raise SettingError(name, value, "executor='serial' has no actors; leave it out, or use executor='ray'")
        if self.executor == "ray" and self.device != "cpu":
            raise SettingError(
                "device", self.device, "executor='ray' trains on the GPUs that Ray assigns; leave it out"
            )
