"""Methods by their names in ``--methods``, built-in or custom as ``MODULE:NAME``, and callbacks by ``--callbacks``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from envs.checks import SettingError
from envs.imports import check_import, import_function, import_name, is_import, own_code
from experiments.methods import METHODS, Method
from experiments.results.naming import look_up

if TYPE_CHECKING:
    from ray.rllib.callbacks.callbacks import RLlibCallback

    from bippo_rllib import BippoConfig

#: Names elsewhere: a fresh selector's ``random``.
_OTHER_NAMES = {"random": "fedavg"}


def check_method(text: str) -> None:
    """Raises a ``ValueError`` for a text that cannot name a method; imports nothing."""
    if is_import(text):
        check_import("--methods", text)
    else:
        look_up_method(text)


def look_up_method(name: str) -> Method:
    """Returns a built-in method.

    Raises:
        ValueError: If there is no such method; the message has the form of a custom one's name.
    """
    if name in _OTHER_NAMES:
        raise ValueError(f"unknown method '{name}': did you mean {_OTHER_NAMES[name]}?")
    if "." in name or "/" in name:
        check_import("--methods", name)
    return look_up("method", name, METHODS)


def find_method(text: str) -> Method:
    """Returns the method with a name of ``--methods``.

    Raises:
        ValueError: If there is no such method, or it does not return a ``BippoConfig``, in one line.
    """
    return _custom_method(text) if is_import(text) else look_up_method(text)


@cache
def _custom_method(text: str) -> Method:
    make = import_function("--methods", text, "a function that returns a BippoConfig")
    config = _custom_config(text, make)
    return Method(
        text,
        text,
        f"{text}: {(inspect.getdoc(make) or 'your own').splitlines()[0]}",
        partial(_custom_config, text, make),
        learns=config.policies_to_train != [],
        federation={"with_loss": True} if config.score_key == "loss" else {},
        settings=tuple(key for method in METHODS.values() for key in method.settings if hasattr(config, key)),
    )


def _custom_config(text: str, make: Any) -> BippoConfig:
    from bippo_rllib import BippoConfig

    with own_code(f"--methods {text}"):
        config = make()
    if not isinstance(config, BippoConfig):
        raise SettingError("--methods", text, f"it returned a {type(config).__name__}; it must return a BippoConfig")
    return config.copy(copy_frozen=False)


def find_callbacks(text: str) -> type[RLlibCallback]:
    """Returns the class with a name of ``--callbacks``.

    Raises:
        ValueError: If it cannot be imported or is not a class of RLlib callbacks, in one line.
    """
    from ray.rllib.callbacks.callbacks import RLlibCallback

    found = import_name("--callbacks", text)
    if not (isinstance(found, type) and issubclass(found, RLlibCallback)):
        what = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        expected = f"name a class derived from ray.rllib.callbacks.callbacks.RLlibCallback, not {what}"
        raise SettingError("--callbacks", text, expected)
    return found


def check_settings_are_taken(
    methods: Sequence[str],
    settings: Mapping[str, Any],
    taken: Callable[[Method, Mapping[str, Any]], Mapping[str, Any]] = Method.settings_taken,
) -> None:
    """Raises a SettingError for a setting that none of the methods takes.

    Args:
        methods: Names as in ``--methods``.
        settings: The settings.
        taken: Method and settings -> those that the method takes.
    """
    found = {key for name in methods for key in taken(find_method(name), settings)}
    for key, value in settings.items():
        if key not in found:
            owners = [method.name for method in METHODS.values() if key in taken(method, settings)]
            only = f"it changes nothing in {', '.join(methods)}, only in {', '.join(owners)}"
            raise SettingError(key, value, only)
