"""Files that cannot be read are named, whatever went wrong in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Some readers put what they found into the reason, however long it is.
_MAX_LENGTH = 300


@contextmanager
def reading(path: object, advice: str) -> Iterator[None]:
    """Makes whatever its body raises a ``ValueError`` of one line with ``path``, the reason and ``advice``.

    Damaged files make their readers raise nearly anything: Pillow beside ``OSError`` also ``ValueError``,
    ``SyntaxError``, ``struct.error`` and ``DecompressionBombError``, gzip ``zlib.error`` and pickle any exception.
    """
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        why = why if len(why) <= _MAX_LENGTH else f"{why[:_MAX_LENGTH]} ..."
        raise ValueError(f"cannot read {path}: {why}; {advice}") from error
