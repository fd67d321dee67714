"""Gradient-norm thresholding: who is left out, for how long, and who is drawn from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bippo_rllib.baselines.norm_filter import AGAIN, RECENT, NormFilter

SIZES = {"a": 10, "b": 20, "c": 10, "d": 40}


def order(rule, norms, costs=None, budget=2.0):
    """One round of four clients; ``norms`` are per sample."""
    infos = [{"update_norm": norms[c] * size if c in norms else None, "num_samples": size} for c, size in SIZES.items()]
    costs = np.ones(4) if costs is None else np.array(costs)
    rule.observe(list(SIZES), infos)
    return "".join(list(SIZES)[i] for i in rule.order(list(SIZES), infos, costs, budget))


def test_long_updates_are_left_out_for_some_rounds():
    rule = NormFilter(threshold=1.5, seed=0)
    # Per sample 1, 2, 3.8 and 1: the median is 1.5, so that 3.8 is above 2.25 and 2 is not.
    assert sorted(order(rule, {"a": 1.0, "b": 2.0, "c": 3.8, "d": 1.0})) == ["a", "b", "d"]
    for _ in range(AGAIN - 1):
        assert "c" not in order(rule, {})
    assert "c" in order(rule, {})
    assert "c" in order(rule, {"c": 1.0})  # measured again: short by now


def test_short_updates_are_left_out_too_if_asked_for():
    norms = {"a": 1.0, "b": 2.0, "c": 3.8, "d": 0.9}  # the median is 1.5, so the limits are 1 and 2.25
    assert sorted(order(NormFilter(two_sided=True, seed=0), norms)) == ["a", "b"]
    assert sorted(order(NormFilter(seed=0), norms)) == ["a", "b", "d"]


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=60), st.floats(0.2, 5.0))
def test_the_threshold_moves_with_the_last_norms(values, threshold):
    rule = NormFilter(threshold=threshold, seed=0)
    for i, value in enumerate(values):
        left_in = order(rule, {"a": value}, budget=0.0 if i % 2 else 2.0)
        limit = threshold * np.median(values[max(0, i + 1 - RECENT) : i + 1])
        assert "a" in left_in if value <= limit * (1 - 1e-9) else True
        if value > limit * (1 + 1e-9) and not i % 2:
            assert "a" not in left_in


def test_if_no_client_below_it_is_affordable_all_are_drawn_from():
    rule = NormFilter(seed=0)
    assert sorted(order(rule, {"a": 1.0, "b": 1.0, "c": 9.0, "d": 1.0}, costs=[5.0, 5.0, 1.0, 5.0])) == list("abcd")


def test_orders_are_random_and_go_on_where_they_were_saved():
    norms = {"a": 1.0, "b": 1.0, "c": 9.0, "d": 1.0}
    firsts = Counter(order(NormFilter(seed=seed), norms)[0] for seed in range(300))
    assert set(firsts) == set("abd") and min(firsts.values()) > 70
    rule, copy = NormFilter(seed=1), NormFilter(seed=2)
    order(rule, norms)
    copy.set_state(rule.get_state())
    assert [order(rule, {"b": 3.0}) for _ in range(5)] == [order(copy, {"b": 3.0}) for _ in range(5)]


def test_what_is_missing_or_wrong_is_named():
    with pytest.raises(ValueError, match=r"the info of 'x' has no 'update_norm'.* set with_update_norm"):
        NormFilter().observe(["x"], [{"num_samples": 3}])
    with pytest.raises(ValueError, match="threshold is 0"):
        NormFilter(threshold=0.0)
    with pytest.raises(ValueError, match=r"threshold is 0\.9; with two_sided it must be at least 1"):
        NormFilter(threshold=0.9, two_sided=True)
