"""The configuration of a federation: a frozen dataclass, validated on construction. Imports no torch."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.checks import SettingError, absolute_path, did_you_mean
from envs.dataset_defaults import absolute_data_dir
from envs.settings.data import DataSettings
from envs.settings.energy import EnergySettings
from envs.settings.execution import Execution
from envs.settings.presence import PresenceSettings
from envs.settings.reward import RewardSettings
from envs.settings.setting import Setting, check_each, documented, settings_of
from envs.settings.training import TrainingSettings


@documented
@dataclass(frozen=True)
class FederationConfig(Execution, RewardSettings):
    """A federation.

    Every setting has a default; if that is None, a property of ``envs.settings`` gives the value. Lists become tuples.
    A setting that differs from its default is refused if nothing reads it under the others.

    Raises:
        SettingError: If a setting is out of range or nothing reads it.
    """

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        check_each(self)
        for name, reason in unread(vars(self)).items():
            raise SettingError(name, getattr(self, name), reason)
        self._check_data()
        self._check_devices()
        self._check_execution()
        object.__setattr__(self, "data_dir", absolute_data_dir(self.data_dir))
        if self.churn_trace:
            object.__setattr__(self, "churn_trace", absolute_path("churn_trace", self.churn_trace))
        self.churn_schedule()

    @property
    def execution(self) -> Execution:
        """Returns the settings of who trains, as one value."""
        return Execution(**{name: getattr(self, name) for name in settings_of(Execution)})


#: Class that declares the settings of a group, by the group's title, in order.
GROUPS: Mapping[str, type] = {
    "Data": DataSettings,
    "Local training": TrainingSettings,
    "Clients that join and leave": PresenceSettings,
    "Devices, energy and budget": EnergySettings,
    "Reward and reports": RewardSettings,
    "Who trains the clients": Execution,
}


def settings_by_group() -> dict[str, dict[str, Setting]]:
    """Returns the settings of a federation by group and name."""
    every = settings_of(FederationConfig)
    return {title: {name: every[name] for name in inspect.get_annotations(group)} for title, group in GROUPS.items()}


def unread(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings that differ from their defaults and that nothing reads, with the reason of each.

    Args:
        settings: Keywords of ``FederationConfig``; all others have their defaults.
    """
    complete = {field.name: field.default for field in dataclasses.fields(FederationConfig)} | dict(settings)
    reasons = {
        name: each.unread(complete)
        for name, each in settings_of(FederationConfig).items()
        if each.unread is not None and complete[name] not in (getattr(FederationConfig, name), [])
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def only_read(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that something reads; see ``unread``."""
    without = unread(settings)
    return {name: value for name, value in settings.items() if name not in without}


def config_from(**fields: Any) -> FederationConfig:
    """Returns ``FederationConfig(**fields)``; a ``ValueError`` for an unknown field suggests known ones."""
    names = [field.name for field in dataclasses.fields(FederationConfig)]
    for name in fields:
        if name not in names:
            hint = did_you_mean(name, names) or f"known are {', '.join(names)}"
            raise ValueError(f"unknown setting {name!r}; {hint.strip()}")
    return FederationConfig(**fields)
