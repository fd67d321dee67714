"""Connectors that replace suggestions: who was excluded before them stays excluded, and states come back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fake_episode import adjusted

import bippo_rllib
from bippo_rllib.baselines.bandit_connector import BanditSuggestions
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.even_suggestions import EvenSuggestions
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.selection.info_ranking import InfoRanking
from bippo_rllib.selection.prior import RepresentativenessPrior

CONNECTORS = {
    "BanditSuggestions": BanditSuggestions,
    "EvenSuggestions": EvenSuggestions,
    "InfoRanking": InfoRanking,
    "InfoRanking, three candidates": lambda: InfoRanking(candidates=3, seed=0),
    "RepresentativenessPrior": RepresentativenessPrior,
    "RuleConnector, Cyclic": lambda: RuleConnector(Cyclic(0)),
    "RuleConnector, Oort": lambda: RuleConnector(Oort(0)),
}
NAMES = ["ann", "bob", "cat", "dan", "eve"]


def infos_of(round_number: int):
    """Infos of a round after which two of five trained."""
    rng = np.random.default_rng(round_number)
    trained = rng.permutation(5)[:2]
    shared = {"cost": 1.0, "budget": 5.0, "num_samples": 10, "failed": False}
    return {
        name: {
            **shared,
            "loss": float(rng.random()),
            "accuracy": float(rng.random()),
            "granted_j": float(i in trained),
            "own_reward": float(rng.normal()) if i in trained else None,
        }
        for i, name in enumerate(NAMES)
    }


def test_every_connector_is_here():
    sources = [path.read_text() for path in Path(bippo_rllib.__file__).parent.rglob("*.py")]
    found = {name for source in sources for name in re.findall(r"^class (\w+)\(SuggestionConnector\)", source, re.M)}
    assert found == {name.partition(",")[0] for name in CONNECTORS}


@pytest.mark.parametrize("make", CONNECTORS.values(), ids=CONNECTORS)
def test_an_excluded_agent_stays_excluded(make):
    connector = make()
    for round_number in range(20):
        excluded = set(np.random.default_rng([round_number, 1]).permutation(NAMES)[: round_number % 6].tolist())
        scores = adjusted(connector, infos_of(round_number), dict.fromkeys(excluded, -np.inf))
        assert {scores[name] for name in excluded} <= {-np.inf}
        candidates = getattr(connector, "candidates", None) or len(NAMES)
        assert np.isfinite(list(scores.values())).sum() == min(candidates, len(NAMES) - len(excluded))


@pytest.mark.parametrize("make", CONNECTORS.values(), ids=CONNECTORS)
def test_a_restored_connector_goes_on_as_the_one_it_was_saved_from(make):
    first, second = make(), make()
    for round_number in range(4):
        adjusted(first, infos_of(round_number))
    second.set_state({})  # as RLlib may pass; nothing to restore
    second.set_state(first.get_state())
    for round_number in range(4, 8):
        assert adjusted(first, infos_of(round_number)) == adjusted(second, infos_of(round_number))
