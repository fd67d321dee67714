"""How the benchmarks measure: contestants that take turns, medians, and the memory of a process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def take_turns(contestants: Mapping[str, Callable[[], Any]], turns: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Seconds of each contestant, ``turns`` times, so that what else the machine does hits them alike.

    The ``warm_up`` turns before do not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(warm_up + turns):
        for name, act in contestants.items():
            started = time.perf_counter()
            act()
            seconds[name].append(time.perf_counter() - started)
    return {name: values[warm_up:] for name, values in seconds.items()}


def median_ms(seconds: Sequence[float]) -> float:
    """Median in milliseconds."""
    return 1000 * statistics.median(seconds)


def median_ratio(seconds: Sequence[float], others: Sequence[float]) -> float:
    """Median over the turns of one contestant's time divided by another's; not the ratio of their medians."""
    return statistics.median(one / other for one, other in zip(seconds, others, strict=True))


def resident_mib(pid: int | None = None) -> float:
    """Resident memory of a process, by default this one."""
    import psutil  # Ray brings it along and puts it on the path

    return psutil.Process(pid).memory_info().rss / 2**20
