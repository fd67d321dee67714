"""What a user names as ``MODULE:NAME``: a model's builder, a data set's loader."""

from __future__ import annotations

import difflib
import importlib
import re
from typing import Any

_NAMED = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


def is_import(value: Any) -> bool:
    """Whether a setting names something to import."""
    return isinstance(value, str) and ":" in value


def check_import(what: str, text: str) -> None:
    """Refuses a text that is not ``MODULE:NAME``; imports nothing."""
    if not _NAMED.fullmatch(text):
        raise ValueError(f"{what} {text!r} is not MODULE:NAME, such as mypackage.mymodule:make")


def import_name(what: str, text: str) -> Any:
    """What ``text``, ``MODULE:NAME``, stands for; ``what`` is the setting, for errors.

    Raises:
        ValueError: If the module cannot be imported or does not hold the name, in one line.
    """
    check_import(what, text)
    module_name, _, name = text.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module does while it is imported
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{what} {text}: cannot import {module_name} ({why}); run from the folder that holds it, or install it"
        ) from error
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, dir(module), n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"{what} {text}: {module_name} has no {name}{hint}")
    return getattr(module, name)
