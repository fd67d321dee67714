"""How many threads torch computes in, for a while.

torch keeps the number per thread of Python. But whichever thread sets it last also sets what threads begin with that
have not used torch yet, so that blocks of several threads which overlap would leave each other's number behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_inside: list[int] = []  # threads of Python within a block
_usual, _latest = 0, 0  # what threads have outside of blocks, and what was set last


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Computes the body of a ``with`` in so many torch threads; afterwards there are as many as before.

    Several threads of Python may be in such blocks at once, and blocks may lie in each other.
    """
    before = _enter(number)
    try:
        yield
    finally:
        _leave(before)


def _enter(number: int) -> int:
    """Returns what is to be set afterwards."""
    global _usual
    with _lock:
        before, thread = torch.get_num_threads(), threading.get_ident()
        if not _inside:
            _usual = before
        elif thread not in _inside and before == _latest:
            before = _usual  # a thread that is new to torch begins with what another one has set for its block
        _inside.append(thread)
        _set(number)
        return before


def _leave(before: int) -> None:
    with _lock:
        _inside.remove(threading.get_ident())
        _set(before)


def _set(number: int) -> None:
    global _latest
    torch.set_num_threads(number)
    _latest = number
