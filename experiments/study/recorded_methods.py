"""What the configurations of a study's methods say, for run.json: networks, and the settings they start from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from experiments.own_methods import find_method, method_name
from experiments.results.run_info import SelectorNetwork, as_written
from experiments.study.ray_session import quiet
from experiments.study.settings import ENV_PREFIX

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig
    from experiments.study.study import Study

#: Settings of BippoConfig that change what is shown or where it runs, and no row.
_NO_NUMBERS = ("per_policy_metrics", "env_bundles")


def networks(study: Study) -> dict[str, list[SelectorNetwork | None]]:
    """Returns what each method trains in each of the study's draws, by the method's name in rows.

    Methods that cannot be made are left out; their trials say why.
    """
    from experiments.study.selector_macs import network_of
    from experiments.study.trial import study_config

    found = {}
    for method in study.methods:
        with suppress(ValueError):
            found[method_name(method)] = [network_of(study_config(study, method, draw)) for draw in study.draws]
    return found


def method_settings(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the settings that each method starts from, before those of the study, by its name in rows.

    Args:
        methods: As in ``--methods``; those that cannot be made are left out.
    """
    quiet()  # RLlib warns of methods that train no policy
    found = {}
    for name in methods:
        with suppress(ValueError):
            found[method_name(name)] = _settings_of(name)
    return found


def _settings_of(name: str) -> dict[str, Any]:
    method = find_method(name)
    config = method.make_config()
    needed = {f"{ENV_PREFIX}{key}": value for key, value in method.federation.items()}
    found = {key: getattr(config, key) for key in _deciding(config)}
    return as_written({key: _named(value) for key, value in sorted({**found, **needed}.items())})


def _deciding(config: BippoConfig) -> set[str]:
    """BIPPO's own settings, and those of RLlib's that its update goes by."""
    from ray.rllib.algorithms.ppo import PPOConfig

    from bippo_rllib.rllib_settings import HONOURED

    own = vars(config).keys() - vars(PPOConfig()).keys() - set(_NO_NUMBERS)
    return {key for key in {*own, *HONOURED["the update"].split()} if not key.startswith("_") and hasattr(config, key)}


def _named(value: Any) -> Any:
    """Code by its name, and objects by that of their class: their texts may hold addresses."""
    if isinstance(value, type | type(_named)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, dict):
        return {str(key): _named(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_named(entry) for entry in value]
    return value if isinstance(value, type(None) | bool | int | float | str) else _named(type(value))
