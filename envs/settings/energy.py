"""Settings of a federation's devices, what they are charged for, and the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.checks import SettingError, not_negative, number, positive
from envs.rules.device_change import DeviceChange, check_changes
from envs.settings.presence import PresenceSettings
from envs.settings.setting import (
    NOT_NEGATIVE,
    POSITIVE,
    choice,
    one_for_each_client,
    only_if,
    or_none,
    setting,
    simple,
    tuple_of,
    unless,
)
from envs.settings.training import OVERRUN

#: The paper's CPU frequencies.
CHEAP_FREQ_HZ = 700e6
EXPENSIVE_FREQ_HZ = 1500e6
FORMULA = "formula"
METERS = (FORMULA, "nvml", "rapl")


def _budget_share(name: str, value: Any) -> None:
    positive(name, value)
    if value > 1.0:
        raise SettingError(
            name, value, f"it is a share, at most 1: did you mean {value:g} %, which is {value / 100:g}?"
        )


def _budget_j(name: str, value: Any) -> None:
    number(name, value)
    if not value >= 0.0:
        raise SettingError(name, value, "it must be at least 0 (math.inf for no limit)")


def _selector_macs(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise SettingError(name, value, "it must be two numbers, for each live client and for each that trains")
    for macs in value:
        not_negative(name, macs)


def _nothing_to_charge(settings: Mapping[str, Any]) -> str | None:
    given = settings["selector_macs"] not in ((0, 0), [0, 0])
    return None if given else "without selector_macs nothing is charged; give both, or leave it out"


@dataclass(frozen=True)
class EnergySettings(PresenceSettings):
    """Devices, what they are charged for, and the budget of a round."""

    cpu_freq_hz: tuple[float, ...] | None = setting(
        None,
        or_none(one_for_each_client(POSITIVE)),
        """CPU frequencies, such as ``[7e8, 1.5e9]`` for two clients; None for the paper's, in each quarter 2 of 5
        clients at 700 MHz and the rest at 1,500 MHz.""",
        unit="Hz",
    )
    device_changes: tuple[DeviceChange, ...] = setting(
        (),
        tuple_of("DeviceChange(round, client, cpu_freq_hz)"),
        "Clients whose frequency, and so cost, changes during a run; not with ``energy_meter``.",
    )
    budget_share: float = setting(
        0.107,
        simple(_budget_share, "a number above 0 and up to 1"),
        """Budget of a round as a share of what one round of all clients live at the start costs then. In joules it
        stays the same, whichever clients join or leave.""",
        unread=unless("budget_j"),
    )
    budget_j: float | None = setting(
        None,
        or_none(simple(_budget_j, "a number of at least 0, inf")),
        "Budget of a round, instead of the share: ``inf`` for no limit; 0 means that no client ever trains.",
        unit="J",
    )
    on_overrun: str = setting(
        "raise",
        choice(OVERRUN),
        "``raise`` an error if the selection exceeds the budget, or ``drop`` the clients that do not fit.",
    )
    probing_epochs: float = setting(
        0.0,
        NOT_NEGATIVE,
        """What every live client spends in every round to report its loss or accuracy: only computing, taken out of the
        budget. 1/3 is a forward pass over its training samples, as a backward pass costs about two; 0, the paper's,
        charges nothing.""",
        unit="local epochs",
    )
    energy_meter: str = setting(
        FORMULA,
        choice(METERS, custom=True),
        """What a client's computing costs: ``formula`` (the paper's), or what is read while it trains; see
        ``envs.training.energy_meter``.""",
    )
    joules_per_mac: float = setting(
        0.0,
        NOT_NEGATIVE,
        "What a multiply-accumulate of the selector takes; 0, the paper's, charges none.",
        unit="J",
        unread=_nothing_to_charge,
    )
    selector_macs: tuple[float, float] = setting(
        (0.0, 0.0),
        simple(_selector_macs, "two numbers of at least 0"),
        """Multiply-accumulates of the selector in a round: for each live client, and beside it for each that trains. A
        study counts those of its methods.""",
        unread=only_if("joules_per_mac"),
    )

    @property
    def start_freq_hz(self) -> tuple[float, ...]:
        """Returns the ``[num_clients]`` CPU frequencies at the start."""
        return paper_cpu_freq_hz(self.num_clients) if self.cpu_freq_hz is None else self.cpu_freq_hz

    def _check_devices(self) -> None:
        if self.late_labels and self.cpu_freq_hz is None:
            raise SettingError("late_labels", self.late_labels, "cpu_freq_hz must be given too, for all clients")
        check_changes(self.device_changes, self.num_clients, self.rounds)
        if self.device_changes and self.energy_meter != FORMULA:
            meter = (
                f"energy_meter={self.energy_meter!r} reads the machine that trains, whatever a client's cpu_freq_hz is"
            )
            raise SettingError("device_changes", self.device_changes, f"{meter}; leave one of them out")


def paper_cpu_freq_hz(num_clients: int) -> tuple[float, ...]:
    """Returns the paper's CPU frequencies: in each quarter of the clients the first 2 of every 5 are cheap.

    Of 20 clients those are 0, 1, 5, 6, 10, 11, 15 and 16.
    """
    freqs = []
    for quarter in range(4):
        size = sum(1 for client in range(num_clients) if 4 * client // num_clients == quarter)
        freqs += [CHEAP_FREQ_HZ if index % 5 < 2 else EXPENSIVE_FREQ_HZ for index in range(size)]
    return tuple(freqs)
