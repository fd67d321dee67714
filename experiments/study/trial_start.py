"""Which trial to run, and from where: one point of a study's grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrialStart:
    """A trial to run.

    Attributes:
        method: Its name.
        seed: Of everything that is drawn.
        resume_from: Checkpoint to go on from; empty to start from the beginning.
        number: Tells the trials of a search apart; None outside one.
        search: The settings drawn for this trial.
        init_from: Checkpoint whose policies it starts with; empty for fresh ones.
        init_sha256: Hash of those policies.
    """

    method: str
    seed: int
    resume_from: str = ""
    number: int | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    init_from: str = ""
    init_sha256: str = ""

    @property
    def name(self) -> str:
        """Of its folder."""
        number = "" if self.number is None else f"-{self.number:05d}"
        return f"{self.method}-seed{self.seed}{number}"
