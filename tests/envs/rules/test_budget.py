"""The budget's slack is rounding alone; who is admitted, and what is left for training."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.rules.budget import BUDGET_TOLERANCE, admit_within_budget, fits, split_budget

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("budget_j", [1e-6, 1.0, 4.594, 1e9])
def test_only_rounding_is_forgiven(budget_j):
    assert BUDGET_TOLERANCE == 1e-9
    assert fits(budget_j * (1 + 0.9e-9), budget_j) and not fits(budget_j * (1 + 1.1e-9), budget_j)
    assert fits(0.0, 0.0) and not fits(1e-300, 0.0) and fits(1e300, math.inf)


def test_clients_are_admitted_in_order_while_they_fit():
    costs_j = np.array([2.0, 3.0, 1.0])
    assert admit_within_budget([0, 1, 2], costs_j, 3.0, NAMES, "drop") == ([0, 2], [1], 3.0)
    assert admit_within_budget([1, 2, 0], costs_j, 3.0, NAMES, "drop") == ([1], [2, 0], 3.0)
    with pytest.raises(ValueError, match=r"6 J.*3 J") as error:
        admit_within_budget([0, 1, 2], costs_j, 3.0, NAMES, "raise")
    assert all(name in str(error.value) for name in NAMES)


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_overheads_are_spent_whole_or_not_at_all(budget_j, overhead_j):
    spent_j, left_j = split_budget(budget_j, overhead_j)
    if fits(overhead_j, budget_j):
        assert spent_j == overhead_j and left_j == max(0.0, budget_j - overhead_j)
    else:
        assert (spent_j, left_j) == (0.0, 0.0)
    assert fits(spent_j + left_j, budget_j)
