"""`python -m experiments.overhead.profile`: where a round's RL time goes, and the least it could take."""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bippo_rllib import policy_macs
from bippo_rllib.policies.actor_critic import ParameterLayout
from experiments.overhead.env import OBS_DIM
from experiments.report.tables import text_table

FLOAT_BYTES = 4
ADAM_OPERATIONS = 12
"""Arithmetic per parameter and step: two moments, two corrections, root, division, subtraction."""


@dataclass(frozen=True)
class Floor:
    """What one round must touch, on average over a pair of rounds."""

    forward_bytes: int
    forward_macs: int
    update_bytes: int
    update_macs: int


def floor(num_clients: int, num_participants: int, *, hidden_size: int = 128, epochs: int = 8, batch: int = 2) -> Floor:
    """The floor of any implementation that acts with every policy each round and trains the participants.

    Forward: every actor's parameters are read once, one observation each. Update, once per `batch` participations:
    parameters and both moments of each participant are read and written once; each epoch is a forward and a backward
    pass (twice its MACs) on `batch` samples and an Adam step; the critic looks at states and next states once before.
    """
    layout = ParameterLayout(OBS_DIM, hidden_size)
    actor_size = sum(math.prod(shape) for name, shape in layout.shapes.items() if name.startswith("actor"))
    actor_macs = hidden_size * (OBS_DIM + 2)
    macs, critic_macs = policy_macs(OBS_DIM, hidden_size), hidden_size * (OBS_DIM + 1)
    epoch = 3 * macs * batch + ADAM_OPERATIONS * layout.size // 2
    return Floor(
        forward_bytes=num_clients * FLOAT_BYTES * (actor_size + OBS_DIM + 1),
        forward_macs=num_clients * actor_macs,
        update_bytes=num_participants * FLOAT_BYTES * 6 * layout.size // batch,
        update_macs=num_participants * (epochs * epoch + 2 * batch * critic_macs) // batch,
    )


def machine_speed() -> tuple[float, float]:
    """Bytes read per second from memory and MACs per second of a matrix product, one thread, best of twenty."""
    import torch

    big, matrix = torch.ones(2**24), torch.rand(512, 512)
    return big.numel() * FLOAT_BYTES / _best(big.sum), 512**3 / _best(lambda: matrix @ matrix)


def _best(function: Callable[[], object], repeats: int = 20) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def floor_text(found: Floor) -> str:
    """The floor and what it would take on this machine."""
    bytes_per_s, macs_per_s = machine_speed()
    parts = {
        "forward": (found.forward_bytes, found.forward_macs),
        "update": (found.update_bytes, found.update_macs),
    }
    return text_table(
        [
            {
                "floor": name,
                "MB touched": f"{size / 1e6:.2f}",
                "million MACs": f"{macs / 1e6:.2f}",
                f"ms at {bytes_per_s / 1e9:.0f} GB/s": f"{1e3 * size / bytes_per_s:.3f}",
                f"ms at {macs_per_s / 1e9:.0f} GMAC/s": f"{1e3 * macs / macs_per_s:.3f}",
            }
            for name, (size, macs) in parts.items()
        ]
    )


def profile(num_clients: int, num_participants: int, pairs: int) -> pstats.Stats:
    """Profile of `pairs` pairs of rounds after a warm-up. Ray must be running."""
    from experiments.overhead.rows import BIPPO, Case
    from experiments.overhead.stopwatch import Stopwatch
    from experiments.overhead.subjects import PAIR, build_bippo

    rule = str(num_participants)
    subject = build_bippo(Case(BIPPO, rule, num_clients, num_participants, PAIR * pairs), Stopwatch())
    for _ in range(5):
        subject.pair()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(pairs):
        subject.pair()
    profiler.disable()
    return pstats.Stats(profiler)


def profile_text(stats: pstats.Stats, rounds: int, lines: int, by: str) -> str:
    """The `lines` functions with the largest `own` or `cumulative` milliseconds per round."""
    place = {"own": 2, "cumulative": 3}[by]
    table = stats.stats  # type: ignore[attr-defined]
    largest = sorted(table.items(), key=lambda item: item[1][place], reverse=True)[:lines]
    return text_table(
        [
            {
                "function": "/".join(file.split("/")[-2:]) + f":{name}",
                "calls": f"{values[1] / rounds:.1f}",
                "own ms": f"{1e3 * values[2] / rounds:.3f}",
                "cumulative ms": f"{1e3 * values[3] / rounds:.3f}",
            }
            for (file, _, name), values in largest
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print both; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments.overhead.profile", description=__doc__)
    parser.add_argument("--clients", type=int, default=1000, metavar="N", help="default: 1000")
    parser.add_argument("--participants", type=int, default=20, metavar="K", help="default: 20")
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="profiled rounds; default: 200")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.participants <= arguments.clients or arguments.rounds < 2:
        print("error: expected --clients N >= --participants K >= 1 and --rounds >= 2", file=sys.stderr)
        return 2
    from experiments.overhead.measure import started_ray

    with started_ray():
        stats = profile(arguments.clients, arguments.participants, arguments.rounds // 2)
    for by in ("own", "cumulative"):
        print(profile_text(stats, 2 * (arguments.rounds // 2), 25, by), end="\n\n")
    print(floor_text(floor(arguments.clients, arguments.participants)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
