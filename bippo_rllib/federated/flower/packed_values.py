"""Values of a run as JSON and arrays, and back: what a file of them holds is read without running any code."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord


class UnknownValue(Exception):
    """A value of a kind that cannot be packed."""


def pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns a value as JSON, and puts its arrays into ``arrays``.

    Args:
        value: None, a number, text, bytes, an array of NumPy or Flower, and lists, tuples and dicts of such.
        arrays: By the names that the JSON has for them.

    Raises:
        UnknownValue: For any other value.
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "number"
        return {kind: _put(np.array(value, order="C"), arrays)}
    if isinstance(value, bytes):
        return {"bytes": _put(np.frombuffer(value, np.uint8), arrays)}
    if isinstance(value, Array):
        return {"Array": pack([value.dtype, list(value.shape), value.stype, value.data], arrays)}
    if isinstance(value, ArrayRecord):
        return {"ArrayRecord": pack(dict(value.items()), arrays)}
    if isinstance(value, dict):
        return {"dict": [[pack(key, arrays), pack(entry, arrays)] for key, entry in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [pack(entry, arrays) for entry in value]}
    raise UnknownValue(type(value).__name__)


def unpack(packed: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns the value that ``pack`` was given.

    Raises:
        KeyError, TypeError, ValueError: For what ``pack`` does not return.
    """
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind in ("array", "number"):
        return arrays[content] if kind == "array" else arrays[content][()]
    if kind == "bytes":
        return arrays[content].tobytes()
    if kind == "Array":
        dtype, shape, stype, data = unpack(content, arrays)
        return Array(dtype=dtype, shape=tuple(shape), stype=stype, data=data)
    if kind == "ArrayRecord":
        return ArrayRecord(unpack(content, arrays))
    if kind == "dict":
        return {unpack(key, arrays): unpack(entry, arrays) for key, entry in content}
    return {"list": list, "tuple": tuple}[kind](unpack(entry, arrays) for entry in content)


def _put(array: np.ndarray, arrays: dict[str, np.ndarray]) -> str:
    if array.dtype.kind not in "biuf":
        raise UnknownValue(f"array of {array.dtype}")
    name = str(len(arrays))
    arrays[name] = array
    return name
