"""Networks and initial settings of a study's methods, for run.json."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from experiments.custom_methods import find_method
from experiments.results.run_info import SelectorNetwork, as_written
from experiments.study.ray_session import quiet
from experiments.study.settings import ENV_PREFIX

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig
    from experiments.study.study import Study

#: Settings of BippoConfig that change no row.
_NO_NUMBERS = ("per_policy_metrics", "env_bundles")


def networks(study: Study) -> dict[str, list[SelectorNetwork | None]]:
    """Returns the networks of each method in each of the study's draws, by the method's name in rows.

    Methods whose configuration raises an error are left out; their trials raise it again.
    """
    from experiments.study.selector_macs import network_of
    from experiments.study.trial_config import study_config

    found = {}
    for method in study.methods:
        with suppress(ValueError):
            found[method] = [network_of(study_config(study, method, draw)) for draw in study.draws]
    return found


def method_settings(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the settings that each method starts from, before those of the study, by its name in rows.

    Args:
        methods: As in ``--methods``; methods whose configuration raises an error are left out.
    """
    quiet()  # RLlib warns of methods that train no policy
    found = {}
    for name in methods:
        with suppress(ValueError):
            found[name] = _settings_of(name)
    return found


def _settings_of(name: str) -> dict[str, Any]:
    method = find_method(name)
    config = method.make_config()
    needed = {f"{ENV_PREFIX}{key}": value for key, value in method.federation.items()}
    found = {key: getattr(config, key) for key in _deciding(config)}
    return as_written({key: _named(value) for key, value in sorted({**found, **needed}.items())})


def _deciding(config: BippoConfig) -> set[str]:
    """Returns the names of BIPPO's settings, and of RLlib's settings of the update."""
    from ray.rllib.algorithms.ppo import PPOConfig

    from bippo_rllib.rllib_settings import HONOURED

    own = vars(config).keys() - vars(PPOConfig()).keys() - set(_NO_NUMBERS)
    return {key for key in {*own, *HONOURED["the update"].split()} if not key.startswith("_") and hasattr(config, key)}


def _named(value: Any) -> Any:
    """Returns the value with names in place of code and of objects, whose texts may contain addresses."""
    if isinstance(value, type | type(_named)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, dict):
        return {str(key): _named(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_named(entry) for entry in value]
    return value if isinstance(value, type(None) | bool | int | float | str) else _named(type(value))
