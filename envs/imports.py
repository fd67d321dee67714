"""A user's own code by name, ``MODULE:NAME``: a method, or what a setting of the federation names."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from envs.checks import described

#: Fields of a ``FederationConfig`` that may be ``MODULE:NAME``.
OWN_CODE_FIELDS = ("dataset", "model", "partition", "aggregation", "reward", "energy_meter")

_NAMED = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


def is_import(value: Any) -> bool:
    """Whether a setting names something to import."""
    return isinstance(value, str) and ":" in value


def check_import(what: str, text: str) -> None:
    """Refuses a text that is not ``MODULE:NAME``; imports nothing."""
    if not _NAMED.fullmatch(text):
        raise ValueError(f"{what} {text!r} is not MODULE:NAME, such as mypackage.mymodule:make")


def import_name(what: str, text: str) -> Any:
    """Imports what ``text``, ``MODULE:NAME``, stands for; ``what`` is the setting, for errors.

    Raises:
        ValueError: If the module cannot be imported or does not hold the name, in one line.
    """
    check_import(what, text)
    module_name, _, name = text.partition(":")
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a user's module does while it is imported, ``sys.exit`` included
        raise ValueError(
            f"{what} {text}: cannot import {module_name} ({described(error)}); run from the folder that holds it, "
            "or install it"
        ) from error
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, dir(module), n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"{what} {text}: {module_name} has no {name}{hint}")
    return getattr(module, name)


def import_function(what: str, text: str, expected: str = "a function") -> Callable[..., Any]:
    """Imports the function that ``text``, ``MODULE:NAME``, stands for.

    Raises:
        ValueError: As ``import_name``, and for what cannot be called.
    """
    function = import_name(what, text)
    if not callable(function):
        raise ValueError(f"{what} {text} is a {type(function).__name__}; name {expected}")
    return function


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """Runs code of a user's own in the body of a ``with``; ``what`` names it, for errors.

    Raises:
        ValueError: For whatever the body raises, ``sys.exit`` included, in one line. An interrupt remains one.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit would end the process as if all were well
        raise ValueError(f"{what}: {described(error)}") from error
