"""Custom code by name, ``MODULE:NAME``: a method, or the value of a federation's setting."""

from __future__ import annotations

import importlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from envs.checks import SettingError, described, did_you_mean

#: Fields of a ``FederationConfig`` that may be ``MODULE:NAME``.
OWN_CODE_FIELDS = ("dataset", "model", "partition", "aggregation", "reward", "energy_meter")

_NAMED = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


def is_import(value: Any) -> bool:
    """Returns whether a setting names something to import."""
    return isinstance(value, str) and ":" in value


def check_import(what: str, text: str) -> None:
    """Raises a SettingError for a text that is not ``MODULE:NAME``; imports nothing."""
    if not _NAMED.fullmatch(text):
        raise SettingError(what, text, f"it must be MODULE:NAME, such as {_as_import(text)}")


def _as_import(text: str) -> str:
    """Returns a file's path or a dotted name as ``MODULE:NAME``, or else an example."""
    module, _, name = text.partition(":")
    if "/" in module or module.endswith(".py"):
        folder, module = os.path.split(module.removesuffix(".py"))
        return f"{module}:{name or 'NAME'}" + (f" after `cd {shlex.quote(folder)}`" if folder else "")
    module, dot, function = text.rpartition(".")
    return f"{module}:{function}" if dot and ":" not in text else "mypackage.mymodule:make"


def import_name(what: str, text: str) -> Any:
    """Imports the object named by ``text``, ``MODULE:NAME``; ``what`` is the setting, for errors.

    Raises:
        SettingError: If the module cannot be imported or does not hold the name, in one line.
    """
    check_import(what, text)
    module_name, _, name = text.partition(":")
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a user's module does while it is imported, ``sys.exit`` included
        why = f"cannot import {module_name} ({described(error)}); run from the folder that holds it, or install it"
        raise SettingError(what, text, why) from error
    if not hasattr(module, name):
        raise SettingError(what, text, f"{module_name} has no {name}; {did_you_mean(name, dir(module))}".rstrip("; "))
    return getattr(module, name)


def import_function(what: str, text: str, expected: str = "a function") -> Callable[..., Any]:
    """Imports the function named by ``text``, ``MODULE:NAME``.

    Raises:
        SettingError: As ``import_name``, and for an object that cannot be called.
    """
    function = import_name(what, text)
    if not callable(function):
        raise SettingError(what, text, f"it names a {type(function).__name__}; name {expected}")
    return function


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """Runs custom code in the body of a ``with``; ``what`` is its name, for errors.

    Raises:
        ValueError: For whatever the body raises, ``sys.exit`` included, in one line. An interrupt remains one.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit would end the process as if all were well
        raise ValueError(f"{what}: {described(error)}") from error
