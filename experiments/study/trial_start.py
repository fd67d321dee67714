"""Which trial to run, and from where: one point of a study's grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.own_methods import method_name


@dataclass(frozen=True)
class TrialStart:
    """A trial to run."""

    method: str  #: As in ``--methods``.
    seed: int  #: Of everything that is drawn.
    resume_from: str = ""  #: Checkpoint to go on from; empty to start from the beginning.
    number: int | None = None  #: Tells the trials of a search apart; None outside one.
    search: Mapping[str, Any] = field(default_factory=dict)  #: The settings drawn for this trial.
    init_from: str = ""  #: Checkpoint whose policies it starts with; empty for fresh ones.
    init_sha256: str = ""  #: Hash of those policies.

    @property
    def name(self) -> str:
        """Of its folder."""
        number = "" if self.number is None else f"-{self.number:05d}"
        return f"{method_name(self.method)}-seed{self.seed}{number}"
