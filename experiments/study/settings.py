"""``--set key=value`` and ``--search key=expression``: parsed without running anything, checked against what exists.

A key is a setting of ``BippoConfig`` (such as ``lr``), or ``env.`` and a field of ``envs.FederationConfig``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envs.checks import one_of
from envs.imports import is_import
from experiments.cli import absolute_path
from experiments.results.naming import close_matches, unknown_name
from experiments.results.setting_text import literal

ENV_PREFIX = "env."
_TRACE = f"{ENV_PREFIX}churn_trace"
_DISTRIBUTIONS = ("uniform", "loguniform", "randint", "lograndint", "randn")
SEARCH_FUNCTIONS = ("choice", "grid_search", *_DISTRIBUTIONS, *(f"q{name}" for name in _DISTRIBUTIONS))
_EXAMPLE_SET = "--set lr=0.0005 env.local_epochs=2"
_EXAMPLE_SEARCH = '--search "lr=loguniform(1e-4,1e-2)"'
#: Setting that a study fixes -> the flag for it.
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
#: Names that other libraries have for a setting.
_OTHER_NAMES = {"learning_rate": "lr", "batch_size": "policy_batch_size", "ent_coef": "entropy_coeff"}
_OTHER_FIELDS = {"learning_rate": "lr", "epochs": "local_epochs", "budget": "budget_j", "clients": "num_clients"}
_LOG_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL")
_PLAIN = (type(None), bool, int, float, str, list, tuple, dict)


def parse_settings(items: Sequence[str]) -> dict[str, Any]:
    """For example ``["lr=0.0005", "env.reward=accuracy_change"]`` -> ``{"lr": 5e-4, "env.reward": "accuracy_change"}``.

    Values are Python literals; anything else is taken as text.

    Raises:
        ValueError: For what is not key=value, a key given twice, or one that has a flag of its own.
    """
    pairs = _pairs("--set", items, _EXAMPLE_SET)
    return {key: literal(text) for key, text in pairs.items()}


def parse_search(items: Sequence[str]) -> dict[str, str]:
    """For example ``["lr=loguniform(1e-4,1e-2)"]`` -> ``{"lr": "loguniform(1e-4,1e-2)"}``.

    Raises:
        ValueError: As ``parse_settings``, and for what is no call of one of Tune's functions.
    """
    pairs = _pairs("--search", items, _EXAMPLE_SEARCH)
    for key, expression in pairs.items():
        _parse_call(key, expression)
    return pairs


def _pairs(flag: str, items: Sequence[str], example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not key or not equals or not text:
            raise ValueError(f"{flag} {item!r} is not key=value; for example {example}")
        if key in pairs:
            raise ValueError(f"{flag} names {key} twice; give it once")
        _check_no_flag(flag, key, text)
        pairs[key] = text
    return pairs


def check_recorded(settings: Mapping[str, Any], search: Mapping[str, str], draws: Sequence[Mapping[str, Any]]) -> None:
    """Checks what a record says of settings as if it had been typed, and that draws are of what is searched.

    Raises:
        ValueError: As ``parse_settings`` and ``parse_search``, and for a draw of other keys.
    """
    for key, value in settings.items():
        _check_no_flag("--set", key, value)
    parse_search([f"{key}={expression}" for key, expression in search.items()])
    for draw in draws:
        if draw.keys() != search.keys():
            raise ValueError(f"a draw has {', '.join(draw) or 'nothing'}, but the search is of {', '.join(search)}")


def _check_no_flag(flag: str, key: str, value: Any) -> None:
    if key in FLAG_OF and not (key == "env.dataset" and is_import(value)):
        raise ValueError(f"{flag} {key}: use {FLAG_OF[key]} for this one")


def _parse_call(key: str, expression: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Function name, arguments and keywords of ``name(literals)``; nothing is evaluated but literals."""
    problem = f"--search {key}={expression}: expected one of Tune's functions ({', '.join(SEARCH_FUNCTIONS)})"
    try:
        call = ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{problem}, such as {_EXAMPLE_SEARCH}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{problem}, such as {_EXAMPLE_SEARCH}")
    if call.func.id not in SEARCH_FUNCTIONS:
        raise ValueError(f"--search {key}: {unknown_name('function', call.func.id, SEARCH_FUNCTIONS)}")
    try:
        arguments = [ast.literal_eval(node) for node in call.args]
        keywords = {str(node.arg): ast.literal_eval(node.value) for node in call.keywords}
        if any(isinstance(argument, set | dict) for argument in (*arguments, *keywords.values())):
            raise ValueError  # they have no order that is the same in every run, so draws would differ
    except (ValueError, TypeError):
        raise ValueError(f"--search {key}={expression}: arguments must be plain numbers, texts or lists") from None
    return call.func.id, arguments, keywords


def sampling_domain(key: str, expression: str) -> Any:
    """The Tune search space of an expression.

    Raises:
        ValueError: Where Tune refuses its arguments.
    """
    from ray import tune

    name, arguments, keywords = _parse_call(key, expression)
    function = getattr(tune, name)
    try:
        inspect.signature(function).bind(*arguments, **keywords)
        domain = function(*arguments, **keywords)
        _draw_once(domain)
    except ZeroDivisionError:
        raise ValueError(f"--search {key}={expression}: the step (the last argument) must be above 0") from None
    except (TypeError, ValueError, AssertionError, IndexError) as error:
        raise ValueError(f"--search {key}={expression}: {error or type(error).__name__}") from None
    return domain


def _draw_once(domain: Any) -> None:
    """Tune looks at some arguments only when it draws."""
    choices = domain["grid_search"] if isinstance(domain, dict) else getattr(domain, "categories", None)
    if choices is not None and not len(choices):
        raise ValueError("there is nothing in the list; name at least one value")
    if choices is None:
        domain.sample(random_state=0)


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the algorithm, and settings of the federation without their prefix."""
    algorithm = {key: value for key, value in settings.items() if not key.startswith(ENV_PREFIX)}
    federation = {key.removeprefix(ENV_PREFIX): value for key, value in settings.items() if key.startswith(ENV_PREFIX)}
    return algorithm, federation


def with_absolute_trace(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings``, fixed or drawn, for trials in folders of their own and a study that is resumed from elsewhere."""
    trace = settings.get(_TRACE)
    return {**settings, **({_TRACE: str(absolute_path(trace))} if isinstance(trace, str) and trace else {})}


def check_federation_keys(keys: Sequence[str], fields: Sequence[str]) -> None:
    """Refuses keys of the federation that are no fields of its config; both without prefix."""
    for key in keys:
        if (other := _OTHER_FIELDS.get(key)) and key not in fields:
            raise ValueError(f"unknown setting '{ENV_PREFIX}{key}': did you mean {ENV_PREFIX}{other}?")
        if key not in fields:
            raise ValueError(unknown_name("setting", ENV_PREFIX + key, [ENV_PREFIX + name for name in fields]))


def apply_settings(config: Any, settings: Mapping[str, Any]) -> Any:
    """Puts algorithm settings into a BippoConfig and returns it.

    Any attribute of the config may be named; ``BippoConfig.validate()`` refuses what it does not honour.

    Raises:
        ValueError: For a key it does not have or a value of the wrong kind.
    """
    known = [name for name in vars(config) if not name.startswith("_")]
    for key, value in settings.items():
        if key not in known:
            raise ValueError(_unknown_setting(key, config))
        _check_kind(key, value, getattr(config, key))
        setattr(config, key, value)
    return config


def _unknown_setting(key: str, config: Any) -> str:
    """Suggests what may be set: the federation's field of that name first, never one of RLlib's that BIPPO refuses."""
    from ray.rllib.algorithms.ppo import PPOConfig

    from bippo_rllib.rllib_settings import CHANGEABLE
    from envs import FederationConfig

    fields = [ENV_PREFIX + name for name in FederationConfig.__dataclass_fields__]
    theirs = vars(PPOConfig()).keys() - set(CHANGEABLE)
    names = {**dict.fromkeys(CHANGEABLE), **vars(config)}
    keys = [name for name in names if not name.startswith("_") and name not in theirs]
    same = [name for name in (ENV_PREFIX + key, _OTHER_NAMES.get(key)) if name in (*fields, *keys)]
    hint = f"did you mean {same[0]}? " if same else close_matches(key, [*sorted(keys), *fields])
    return f"unknown setting '{key}': {hint}{_KEYS}"


def _check_kind(key: str, value: Any, default: Any) -> None:
    kind = "function" if key.startswith("callbacks_on_") else type(default).__name__
    if kind == "function" or not isinstance(default, _PLAIN):
        raise ValueError(f"setting {key} cannot be given here: it is no number or text but a {kind}")
    if key == "log_level":  # RLlib looks at it when a trial starts
        one_of("setting log_level", value, _LOG_LEVELS)
    if isinstance(default, dict) and not isinstance(value, dict):
        raise ValueError(f"setting {key}={value!r}: expected a dict, such as {key}={default!r}")
    if isinstance(default, bool) or not isinstance(default, int | float):
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"setting {key}={value!r}: expected a number, such as {key}={default!r}")


def as_typed(message: str, keys: Iterable[str]) -> str:
    """``message`` with the user's words for fields, such as ``--num-actors`` for ``num_actors``.

    Args:
        message: One line.
        keys: Of ``--set`` and ``--search``, such as ``lr`` or ``env.num_clients``. Where ``lr`` and ``env.lr`` are both
            given, neither is renamed.
    """
    typed = set(keys)
    flags = {key.removeprefix(ENV_PREFIX): flag for key, flag in FLAG_OF.items() if key.startswith(ENV_PREFIX)}
    fields = {key.removeprefix(ENV_PREFIX): key for key in typed if key.startswith(ENV_PREFIX)}
    names = {field: name for field, name in {**flags, **fields}.items() if field not in typed}
    # What is also a word of prose stands for the field only where a value follows.
    alternatives = [re.escape(name) if "_" in name else rf"(?<!the ){name}(?=(?: is |=))" for name in names]
    return re.sub(rf"(?<![\w.-])({'|'.join(alternatives)})\b", lambda found: names[found[1]], message)
