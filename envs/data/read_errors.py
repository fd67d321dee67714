"""Files that cannot be read are named, whatever went wrong in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reading(path: object, advice: str) -> Iterator[None]:
    """What its body raises becomes a ``ValueError`` of one line with ``path``, the reason and ``advice``.

    Damaged files make their readers raise nearly anything: Pillow beside ``OSError`` also ``ValueError``,
    ``SyntaxError``, ``struct.error`` and ``DecompressionBombError``, gzip ``zlib.error`` and pickle any exception.
    """
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"cannot read {path}: {why}; {advice}") from error
