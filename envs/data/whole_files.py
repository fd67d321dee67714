"""Reads files whole, up to a limit, so that a few bytes that claim or unpack to gigabytes cannot fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Protocol

#: More than any original file of a data set and any image has, packed or not.
MAX_BYTES = 2**28
#: Some decompressors return all that their input holds, so that it is given to them in small pieces.
_PIECE = 2**13


class Openable(Protocol):
    """A file in a folder (``pathlib.Path``) or in an archive; as text it is its path."""

    def open(self, mode: Any) -> IO[Any]:
        """Returns a stream; ``mode`` is ``rb``."""


def read_whole(file: Openable) -> bytearray:
    """Returns the bytes of a file.

    Raises:
        ValueError: If it is no regular file (a named pipe would be waited for), or holds more than ``MAX_BYTES``.
        Exception: Whatever its reader raises.
    """
    if isinstance(file, Path) and not file.is_file():
        raise ValueError("it is no regular file")
    with file.open("rb") as stream:
        return read_stream(stream)


def read_stream(stream: Any) -> bytearray:
    """Returns the rest of a binary stream; errors as ``read_whole``."""
    content = bytearray()
    while piece := stream.read(_PIECE):
        content += piece
        if len(content) > MAX_BYTES:
            raise ValueError(f"it holds more than {MAX_BYTES >> 20} MiB, or unpacks to more")
    return content


class Limited:
    """A binary stream of which no more than ``MAX_BYTES`` can be read, for readers that take what a header claims."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._left = stream, MAX_BYTES

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` bytes; raises ``ValueError`` beyond the limit."""
        piece = self._stream.read(min(size, self._left + 1))
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {MAX_BYTES >> 20} MiB")
        return piece
