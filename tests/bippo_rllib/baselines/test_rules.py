"""Rules of published methods: no number of any client is missing in silence, nor what an excluded one reports."""

from __future__ import annotations

import numpy as np
import pytest

from bippo_rllib.baselines.fedcor import WARM_UP, FedCor
from bippo_rllib.baselines.greedyfed import GreedyFed
from bippo_rllib.baselines.hics import HiCS
from bippo_rllib.baselines.norm_filter import NormFilter
from bippo_rllib.baselines.oort import Oort

INFO = {
    "num_samples": 10,
    "loss": 1.0,
    "granted_j": 1.0,
    "update_norm": None,
    "output_bias_update": None,
}


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (FedCor, "loss"),
        (FedCor, "num_samples"),
        (lambda: HiCS(50), "num_samples"),
        (NormFilter, "num_samples"),
        (Oort, "granted_j"),
        (Oort, "loss"),
        (Oort, "num_samples"),
    ],
)
@pytest.mark.parametrize("number", [None, np.nan, np.inf])
def test_a_number_that_every_client_must_report_is_asked_for_by_name(make, key, number):
    rule, everyone = make(), np.ones(2, dtype=bool)
    for _ in range(WARM_UP):
        rule.scores(["a", "b"], [INFO, INFO], np.ones(2), 1.0, everyone)
    with pytest.raises(ValueError, match=rf"^the info of 'b' has .*'{key}'"):
        rule.scores(["a", "b"], [INFO, {**INFO, key: number}], np.ones(2), 1.0, everyone)


#: What of the rules' states is made of reports.
RECORDS = {"losses", "history", "record", "updates", "recent", "left_out_until", "known"}
REPORT = {"loss": 2.0, "update_norm": 5.0, "output_bias_update": [1.0, -1.0], "own_reward": 0.5, "failed": False}


@pytest.mark.parametrize("make", [FedCor, GreedyFed, lambda: HiCS(50), NormFilter, Oort])
def test_what_a_client_reports_is_recorded_whether_or_not_it_is_a_candidate(make):
    """A client that trained last round and is excluded in this one, as one that has just gone offline."""
    both, idle = np.ones(2, dtype=bool), {**INFO, "own_reward": None, "granted_j": 0.0, "failed": False}
    states = []
    for report, candidates in ((REPORT, [True, False]), ({}, [True, False]), (REPORT, [True, True])):
        rule = make()
        rule.scores(["a", "b"], [idle, idle], np.ones(2), 1.0, both)
        trained = {**idle, **report, "granted_j": 1.0 if report else 0.0}
        scores = rule.scores(["a", "b"], [idle, trained], np.ones(2), 1.0, np.array(candidates))
        assert np.isfinite(scores).tolist() == candidates
        states.append({name: value for name, value in rule.get_state().items() if name in RECORDS})
    excluded, silent, candidate = (repr(state) for state in states)
    assert excluded == candidate != silent
