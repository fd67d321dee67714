"""Reads numbers that users and environments give; a text such as ``"3"``, which NumPy reads, is none. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Kinds of NumPy dtypes whose entries are real numbers.
_REAL = "biuf"


def as_float(value: Any) -> float | None:
    """Returns one number of Python, NumPy or torch as a float; None for anything else.

    Not numbers are, beside texts: arrays of one entry, complex numbers, and integers that no float can hold.
    """
    if getattr(value, "shape", ()) != ():
        return None
    item = value.item() if hasattr(value, "item") else value  # of Python, so that a text of NumPy is known as one
    try:
        return float(item) if hasattr(type(item), "__float__") else None
    except (TypeError, ValueError, OverflowError):
        return None


def as_floats(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Returns ``float64[len(values)]``, each by ``as_float``; NaN where that is None."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # such as lists of different lengths
        array = np.empty(0)
    if array.shape == (len(values),) and array.dtype.kind in _REAL:  # as a rule, and much faster than one by one
        return array.astype(np.float64)  # a copy
    return np.array([as_float(value) for value in values], dtype=np.float64)


def as_vector(value: Any) -> np.ndarray | None:
    """Returns numbers in a row, at least one, as ``float64[size]``; NaN for entries that are none.

    Anything else, such as one number or lists of different lengths, is None.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return as_floats(array) if array.ndim == 1 and array.size else None
