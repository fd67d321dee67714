"""Numbers from rows: golden values derived by hand, and properties against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from row_factory import frame, make_rows

from experiments.report.metrics import rounds_to_target, summarize, summarize_trials


@pytest.mark.parametrize(
    ("accuracy", "target", "expected"),
    [
        # The mean of rounds 1-10 is (9 * 0.7 + 1.0) / 10 = 0.73, of 2-11 0.76, of 3-12 0.79, of 4-13 0.82.
        ([0.7] * 9 + [1.0] * 20, 0.8, 13),
        ([0.7] * 9 + [1.0] * 3, 0.8, None),
        ([0.7] * 9 + [1.0] * 20, 1.0, 19),
        # 0.8 is no binary fraction: the mean of ten of them may come out a hair below.
        ([0.8] * 10, 0.8, 10),
        ([0.5] * 9 + [1.0], 0.8, None),
    ],
)
def test_rounds_to_target_counts_rounds_from_one(accuracy: list[float], target: float, expected: int | None) -> None:
    assert rounds_to_target(accuracy, target) == expected


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.floats(0.0, 1.0))
def test_rounds_to_target_agrees_with_a_plain_loop(accuracy: list[float], target: float) -> None:
    means = {last: math.fsum(accuracy[last - 10 : last]) / 10 for last in range(10, len(accuracy) + 1)}
    # Two ways to sum may differ by rounding right at the target.
    assume(all(abs(mean - (target - 1e-9)) > 1e-12 for mean in means.values()))
    expected = next((last for last, mean in means.items() if mean >= target - 1e-9), None)
    assert rounds_to_target(accuracy, target) == expected


def test_trial_summary_golden() -> None:
    # Energies 1, 2, 3 of a budget of 4: per round 2 J, in all 6 J, share (0.25 + 0.5 + 0.75) / 3 = 0.5.
    rows = frame(make_rows([0.2, 0.4, 0.9])).assign(energy_j=[1.0, 2.0, 3.0], budget_j=4.0)
    ((_, summary),) = summarize_trials(rows, target=0.8).iterrows()
    assert (summary.rounds, summary.seed, summary.trial) == (3, 7, "bippo-seed7")
    assert summary.mean_accuracy == pytest.approx(0.5)
    assert (summary.energy_per_round_j, summary.energy_total_j, summary.budget_share) == (2.0, 6.0, 0.5)
    assert math.isnan(summary.late_accuracy) and math.isnan(summary.rounds_to_target)


def test_late_accuracy_is_over_rounds_after_the_hundredth() -> None:
    rows = frame(make_rows([0.0] * 100 + [0.6, 0.8]))
    assert summarize_trials(rows, target=0.8)["late_accuracy"].tolist() == [pytest.approx(0.7)]
    assert summarize_trials(rows[:100], target=0.8)["late_accuracy"].isna().all()


@pytest.mark.parametrize("budget", [0.0, math.inf])
def test_a_budget_without_a_share_counts_as_unused(budget: float) -> None:
    rows = frame(make_rows([0.5], budget_j=budget, energy_j=0.0 if budget == 0 else 1.0))
    assert summarize_trials(rows, target=0.8)["budget_share"].tolist() == [0.0]


def test_seeds_that_miss_the_target_are_left_out_of_its_mean_only() -> None:
    # Seed 7 reaches 0.8 at round 10, seed 28 never, seed 42 at round 12: the window of rounds 3-12 is the first with
    # ten times 0.8. Of 3 seeds 2 count. Mean accuracies: 0.8, 0.1 and 10 * 0.8 / 12.
    late = [0.0] * 2 + [0.8] * 10
    rows = frame(make_rows([0.8] * 12, seed=7), make_rows([0.1] * 12, seed=28), make_rows(late, seed=42))
    (summary,) = summarize(rows, target=0.8)
    assert summary.rounds_to_target.values == (10.0, 12.0) and summary.num_seeds == 3
    assert summary.mean_accuracy.mean == pytest.approx((0.8 + 0.1 + 8 / 12) / 3)


def test_settings_are_summed_up_apart_and_each_once_per_seed() -> None:
    first, again = ([{**row, "trial": name} for row in make_rows([0.7] * n)] for name, n in (("a", 2), ("b", 4)))
    other = make_rows([0.5] * 3, setting="lr=0.01234567")
    summaries = summarize(frame(first, again, other, make_rows([0.9] * 3, "fedavg")))
    assert [(s.label, s.num_seeds) for s in summaries] == [("bippo", 1), ("bippo lr=0.01235", 1), ("fedavg", 1)]
    assert np.allclose([s.mean_accuracy.mean for s in summaries], [0.7, 0.5, 0.9])
    assert summaries[0].trials["rounds"].tolist() == [4]
