"""The settings of a selector, which tell whether a saved run has the same one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bippo_rllib.federated.ranking import ReportRanking
from bippo_rllib.federated.selector_parts import SelectorParts

#: Attributes that a file holds.
SAMPLER = ("strategy", "epsilon", "epsilon_decay", "epsilon_min", "outside_odds", "set_weight")
PRIOR = ("key", "weight", "gain", "only_lowers", "standardised")
MATCHING = ("key", "size_key", "length_penalty", "memory")


def settings_of(parts: SelectorParts) -> dict[str, Any]:
    """Returns what a selector is made with and keeps, by name; neither its seed nor anything that rounds change."""
    ranking = parts.ranking
    return {
        **_named("sampler", parts.sampler, [name for name in SAMPLER if name != "epsilon"]),
        "ranking": None if ranking is None else ranking.name,
        **_named("ranking", ranking if isinstance(ranking, ReportRanking) else None, ("key", "highest_first")),
        **_named("prior", parts.prior, PRIOR),
        **_named("update matching", parts.matching, MATCHING),
        "explore": parts.explore,
        "learns": parts.trains != [],
        **_named("reward", parts.reward, ("name", "base", "target")),
        **asdict(parts.settings),
        "policy_batch_size": parts.trainer.buffer.batch_size,
        "steps of training in simulation": parts.steps,
    }


def _named(part: str, value: Any, names: Sequence[str]) -> dict[str, Any]:
    return {f"{part} {name}": getattr(value, name, None) for name in names}
