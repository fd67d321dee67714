"""What ``benchmark rl`` measures, as rows in one JSON file."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from experiments.results.files import atomic_write
from experiments.results.provenance import git_commit, machine, package_versions

ROWS_FILE = "overhead.json"
BIPPO, PRIOR, CENTRAL, STOCK = "bippo", "bippo-prior", "central", "rllib"


@dataclass(frozen=True)
class Case:
    """One contestant, in a process of its own."""

    implementation: str  #: ``BIPPO``, ``PRIOR`` (BIPPO with the representativeness prior), ``CENTRAL`` or ``STOCK``.
    rule: str  #: How ``num_participants`` came about: ``20`` or ``10 %``.
    num_clients: int  #: Clients, each with a policy.
    num_participants: int  #: Clients trained per round.
    rounds: int  #: Measured rounds, after a warm-up.


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two rounds: milliseconds per round, whose parts add up to ``rl_ms``, policies updated per round, and memory."""

    rl_ms: float
    forward_ms: float
    sampler_ms: float
    bookkeeping_ms: float
    learner_ms: float
    kernel_forward_ms: float | None = None
    kernel_update_ms: float | None = None
    updates_per_round: float
    resident_mib: float

    @property
    def kernel_ms(self) -> float | None:
        """The bare kernel: batched forward and update on ready tensors."""
        if self.kernel_forward_ms is None or self.kernel_update_ms is None:
            return None
        return self.kernel_forward_ms + self.kernel_update_ms


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What saving took."""

    checkpoint_s: float
    checkpoint_mib: float
    checkpoint_files: int


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A case and its figures.

    Milliseconds are per round, medians over pairs of rounds: a policy is updated with every second participation, so a
    pair holds one update of each participant. ``rl_ms`` is everything of ``algo.train()`` outside the environment and
    splits into the four below it; ``bookkeeping_ms`` is what is left of each pair. ``kernel_ms``, the bare kernel, is
    None but for BIPPO, and ``sampler_ms`` is 0 for stock RLlib. ``_first`` and ``_last`` are over the first and last
    fifth of the pairs.

    Ratios are medians over turns, in each of which all that are compared took their turn within seconds; they are not
    the ratios of the medians, which other work on the machine distorts.
    """

    case: Case
    updates_per_round: float
    rl_ms: float
    forward_ms: float
    sampler_ms: float
    bookkeeping_ms: float
    learner_ms: float
    kernel_ms: float | None
    rl_to_bippo: float | None = None  #: ``rl_ms`` to BIPPO's with as many clients.
    rl_to_kernel: float | None = None
    rl_to_kernel_growth: float | None = None  #: ``rl_to_kernel`` in the last fifth of the turns to that in the first.
    rl_to_fewest: float | None = None  #: BIPPO's ``rl_ms`` to its own with the fewest clients.
    learner_to_fewest: float | None = None
    resident_mib_first: float
    resident_mib_last: float
    build_s: float
    checkpoint_s: float
    checkpoint_mib: float
    checkpoint_files: int


@dataclass(frozen=True)
class Rows:
    """The rows of a file and the command that made them."""

    command: str
    rows: list[Measurement]


#: To and from JSON.
CASE, PAIRS, CHECKPOINT = TypeAdapter(Case), TypeAdapter(list[Pair]), TypeAdapter(Checkpoint)
ROWS = TypeAdapter(Rows)


def write_rows(path: Path, rows: Sequence[Measurement], command: str) -> None:
    """Writes all rows, and where they come from; a reader never sees half a file."""
    record = {
        "command": command,
        "written": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "commit": git_commit(),
        "packages": package_versions(),
        "machine": machine(),
        "rows": [asdict(row) for row in rows],
    }
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n")


def read_rows(path: Path) -> Rows:
    """The inverse.

    Raises:
        ValueError: If it is no file of ours.
    """
    try:
        return ROWS.validate_json(path.read_bytes())
    except ValidationError:
        raise ValueError(f"{path} holds no rows of benchmark rl; name the {ROWS_FILE} that it wrote") from None
