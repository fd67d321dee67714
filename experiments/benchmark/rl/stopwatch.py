"""Wall-clock seconds by part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PARTS = ("forward", "sampler", "learner")


class Stopwatch:
    """Seconds spent in each of ``PARTS`` so far: in wrapped functions and in ``timing`` blocks."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Adds the time of a ``with`` block to ``part``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Times every call of the method ``owner.name``."""
        function = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.timing(part):
                return function(*args, **kwargs)

        setattr(owner, name, timed)
