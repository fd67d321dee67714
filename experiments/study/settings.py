"""``--set key=value``: parsed without running anything, checked against the settings that exist.

A key is a setting of ``BippoConfig`` (such as ``lr``), or ``env.`` and a field of ``envs.FederationConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envs.checks import SettingError, Shortage, did_you_mean, one_of
from envs.config import FederationConfig, config_from, only_read
from envs.imports import is_import
from envs.rules.churn import ChurnSchedule
from experiments.argument_types import absolute_path
from experiments.results.naming import unknown_name
from experiments.results.setting_text import literal

ENV_PREFIX = "env."
_TRACE = f"{ENV_PREFIX}churn_trace"
_EXAMPLE_SET = "--set lr=0.0005 env.local_epochs=2"
#: Flag, or other way, of each setting that cannot be given here.
FLAG_OF = {
    "env": "--scenario",
    "env_config": "env. and a field of envs.FederationConfig",
    "seed": "--seeds",
    "callbacks_class": "--callbacks",
    "env.rounds": "--rounds",
    "env.seed": "--seeds",
    "env.dataset": "--scenario",
    "env.data_dir": "--data-dir",
    "env.executor": "--executor",
    "env.num_actors": "--num-actors",
    "env.cpus_per_actor": "--cpus-per-actor",
    "env.gpus_per_actor": "--gpus-per-actor",
    **dict.fromkeys(("sampler", "score_key", "highest_first"), "--methods"),
    **dict.fromkeys(
        ("evaluation_interval", "evaluation_duration", "evaluation_duration_unit", "evaluation_config"),
        "Bippo.from_checkpoint(...).evaluate()",
    ),
}
_KEYS = "keys are those of BippoConfig.training, such as lr or epsilon_decay, or env. and a field of the federation"
#: Names of settings in other libraries.
_OTHER_NAMES = {
    "learning_rate": ("lr", "env.lr"),  # of the policies, and of the clients' local training
    "batch_size": ("policy_batch_size",),
    "ent_coef": ("entropy_coeff",),
}
_OTHER_FIELDS = {"learning_rate": "lr", "epochs": "local_epochs", "budget": "budget_j", "clients": "num_clients"}
_FIELDS = tuple(FederationConfig.__dataclass_fields__)
#: A field in a message: ``reward=``, or ``train_samples``, which is no word of plain English.
_LONG_NAMES = "|".join(name for name in _FIELDS if "_" in name)
_MENTIONED = re.compile(rf"(?<![\w.-])(?:(?:{'|'.join(_FIELDS)})(?==)|(?:{_LONG_NAMES})\b)")
_LOG_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL")
_PLAIN = (type(None), bool, int, float, str, list, tuple, dict)


def parse_settings(items: Sequence[str]) -> dict[str, Any]:
    """Parses ``["lr=0.0005", "env.reward=accuracy_change"]`` to ``{"lr": 5e-4, "env.reward": "accuracy_change"}``.

    Values are Python literals; anything else is text.

    Raises:
        ValueError: For an item that is not key=value, a key given twice, or one that has another flag.
    """
    pairs = key_values("--set", items, _EXAMPLE_SET)
    return {key: literal(text) for key, text in pairs.items()}


def key_values(flag: str, items: Sequence[str], example: str) -> dict[str, str]:
    """Returns the texts of ``key=value`` items by key; errors as ``parse_settings``."""
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not key or not equals or not text:
            raise ValueError(f"{flag} {item!r} is not key=value; for example {example}")
        if key in pairs:
            raise ValueError(f"{flag} names {key} twice; give it once")
        check_no_flag(flag, key, text)
        pairs[key] = text
    return pairs


def check_no_flag(flag: str, key: str, value: Any) -> None:
    """Raises a ValueError for a key that has another flag."""
    if other := _flag_of(key, value):
        raise ValueError(f"{flag} {key}: use {other} for this one")


def _flag_of(key: str, value: Any) -> str | None:
    return None if key == "env.dataset" and is_import(value) else FLAG_OF.get(key)


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns settings of the algorithm, and settings of the federation without their prefix."""
    algorithm = {key: value for key, value in settings.items() if not key.startswith(ENV_PREFIX)}
    federation = {key.removeprefix(ENV_PREFIX): value for key, value in settings.items() if key.startswith(ENV_PREFIX)}
    return algorithm, federation


def with_absolute_trace(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``settings`` with an absolute path of a churn trace, since trials have other working directories."""
    trace = settings.get(_TRACE)
    return {**settings, **({_TRACE: str(absolute_path(trace))} if isinstance(trace, str) and trace else {})}


def churn_schedule(federation: Mapping[str, Any], rounds: int) -> ChurnSchedule:
    """Returns when clients of a study's federation join and leave, given keywords of which a method may read more."""
    return config_from(**only_read({**federation, "rounds": rounds})).churn_schedule()


def check_federation_keys(keys: Iterable[str]) -> None:
    """Refuses keys that are no fields of the federation's config; both without prefix."""
    for key in keys:
        if (other := _OTHER_FIELDS.get(key)) and key not in _FIELDS:
            raise ValueError(f"unknown setting '{ENV_PREFIX}{key}': did you mean {ENV_PREFIX}{other}?")
        if key not in _FIELDS:
            raise ValueError(unknown_name("setting", ENV_PREFIX + key, [ENV_PREFIX + name for name in _FIELDS]))


def apply_settings(config: Any, settings: Mapping[str, Any]) -> None:
    """Sets algorithm settings in a BippoConfig.

    Any attribute of the config may be set; ``BippoConfig.validate()`` refuses settings that BIPPO does not honour.

    Raises:
        ValueError: For an unknown key or a value of the wrong kind.
    """
    known = [name for name in vars(config) if not name.startswith("_")]
    for key, value in settings.items():
        if key not in known:
            raise ValueError(_unknown_setting(key, config))
        _check_kind(key, value, getattr(config, key))
        setattr(config, key, value)


def read_by_sampler(sampler: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``settings`` without those that only another sampler than the method's reads.

    A study's settings are for all of its methods, which have different samplers; ``BippoConfig`` would refuse them.

    Args:
        sampler: The method's sampler, unless the settings name one.
        settings: Algorithm settings.
    """
    from bippo_rllib.config_checks import ONLY_OF_SAMPLER  # needs RLlib

    sampler = settings.get("sampler", sampler)
    return {key: value for key, value in settings.items() if ONLY_OF_SAMPLER.get(key, sampler) == sampler}


def read_by_selection(sampler: str, learns: bool, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what ``read_by_sampler`` does, without the settings of the policies' update where no policy learns.

    Args:
        sampler: As in ``read_by_sampler``.
        learns: Whether the method trains policies.
        settings: Algorithm settings.
    """
    from bippo_rllib.rllib_settings import HONOURED

    update = {*HONOURED["the update"].split(), "policy_batch_size"} - {"policies_to_train"}
    read = read_by_sampler(sampler, settings)
    return {key: value for key, value in read.items() if learns or key not in update}


def _unknown_setting(key: str, config: Any) -> str:
    """Returns the message, which suggests the federation's field of that name first, and none that BIPPO refuses."""
    from ray.rllib.algorithms.ppo import PPOConfig

    from bippo_rllib.rllib_settings import CHANGEABLE

    fields = [ENV_PREFIX + name for name in _FIELDS]
    theirs = vars(PPOConfig()).keys() - set(CHANGEABLE)
    names = {**dict.fromkeys(CHANGEABLE), **vars(config)}
    keys = [name for name in names if not name.startswith("_") and name not in theirs]
    same = [ENV_PREFIX + key] if key in _FIELDS else _OTHER_NAMES.get(key)
    hint = f"did you mean {' or '.join(same)}? " if same else did_you_mean(key, [*sorted(keys), *fields])
    return f"unknown setting '{key}': {hint}{_KEYS}"


def _check_kind(key: str, value: Any, default: Any) -> None:
    kind = "function" if key.startswith("callbacks_on_") else type(default).__name__
    if kind == "function" or not isinstance(default, _PLAIN):
        raise ValueError(f"setting {key} cannot be given here: it is a {kind}, not a number or text")
    if key == "log_level":  # RLlib looks at it when a trial starts
        one_of("setting log_level", value, _LOG_LEVELS)
    if isinstance(default, dict) and not isinstance(value, dict):
        raise ValueError(f"setting {key}={value!r}: expected a dict, such as {key}={default!r}")
    if isinstance(default, bool) or not isinstance(default, int | float):
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"setting {key}={value!r}: expected a number, such as {key}={default!r}")


def as_typed(error: Exception) -> Exception:
    """Returns an error about a federation's setting with the flag or the key of ``--set`` that sets it."""
    if isinstance(error, Shortage):
        return ValueError(with_keys(str(error)))
    if not isinstance(error, SettingError) or error.field not in _FIELDS:
        return error
    renamed = SettingError(error.field, error.value, with_keys(error.expected))
    return ValueError(renamed.worded(_as_given(error.field, error.value)))


def with_keys(text: str) -> str:
    """Returns a federation's message with the flags or the keys of ``--set`` for the settings that it mentions."""
    return _MENTIONED.sub(lambda found: _as_given(found[0], None), text)


def _as_given(field: str, value: Any) -> str:
    key = ENV_PREFIX + field
    return _flag_of(key, value) or key
