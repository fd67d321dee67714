"""Numbers from rows: golden values derived by hand, and properties against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_factory import make_rows

from experiments.report.metrics import rounds_to_target, summarize, summarize_trials

accuracies = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


def test_rounds_to_target_counts_rounds_from_one() -> None:
    # Nine rounds at 0.7, then 1.0: the mean of rounds 1-10 is (9 * 0.7 + 1.0) / 10 = 0.73, of rounds 2-11 0.76, of
    # rounds 3-12 0.79, of rounds 4-13 0.82: the first at 0.80 or more.
    accuracy = [0.7] * 9 + [1.0] * 20
    assert rounds_to_target(accuracy, 0.80) == 13
    assert rounds_to_target(accuracy, 0.73) == 10
    assert rounds_to_target(accuracy, 1.0) == 19
    assert rounds_to_target(accuracy[:12], 0.80) is None


def test_a_mean_exactly_at_the_target_reaches_it() -> None:
    # 0.8 is no binary fraction: the mean of ten of them may come out a hair below.
    assert rounds_to_target([0.8] * 10, 0.8) == 10


def test_one_good_round_is_not_enough() -> None:
    assert rounds_to_target([0.5] * 9 + [1.0], 0.8) is None


@given(accuracies, st.floats(0.0, 1.0))
def test_rounds_to_target_agrees_with_a_plain_loop(accuracy: list[float], target: float) -> None:
    expected = None
    for last in range(10, len(accuracy) + 1):
        if math.fsum(accuracy[last - 10 : last]) / 10 >= target - 1e-9:
            expected = last
            break
    found = rounds_to_target(accuracy, target)
    # Two ways to sum may differ by rounding right at the target; everywhere else they must agree.
    means = [abs(math.fsum(accuracy[last - 10 : last]) / 10 - (target - 1e-9)) for last in range(10, len(accuracy) + 1)]
    assert found == expected or min(means) < 1e-12


def test_trial_summary_golden() -> None:
    # Energies 1, 2, 3 of a budget of 4: per round 2 J, in all 6 J, share (0.25 + 0.5 + 0.75) / 3 = 0.5.
    rows = pd.DataFrame(make_rows([0.2, 0.4, 0.9]))
    rows["energy_j"], rows["budget_j"] = [1.0, 2.0, 3.0], 4.0
    ((_, summary),) = summarize_trials(rows, target=0.8).iterrows()
    assert (summary.rounds, summary.seed, summary.trial) == (3, 7, "bippo-seed7")
    assert summary.mean_accuracy == pytest.approx(0.5)
    assert (summary.energy_per_round_j, summary.energy_total_j, summary.budget_share) == (2.0, 6.0, 0.5)
    assert math.isnan(summary.late_accuracy) and math.isnan(summary.rounds_to_target)


def test_late_accuracy_is_over_rounds_after_the_hundredth() -> None:
    rows = pd.DataFrame(make_rows([0.0] * 100 + [0.6, 0.8]))
    assert summarize_trials(rows, target=0.8)["late_accuracy"].tolist() == [pytest.approx(0.7)]
    assert summarize_trials(rows[:100], target=0.8)["late_accuracy"].isna().all()


@pytest.mark.parametrize("budget", [0.0, math.inf])
def test_a_budget_without_a_share_counts_as_unused(budget: float) -> None:
    rows = pd.DataFrame(make_rows([0.5], budget_j=budget, energy_j=0.0 if budget == 0 else 1.0))
    assert summarize_trials(rows, target=0.8)["budget_share"].tolist() == [0.0]


def test_seeds_that_miss_the_target_are_left_out_of_its_mean_only() -> None:
    # Seed 7 reaches 0.8 at round 10, seed 28 never, seed 42 at round 12: the window of rounds 3-12 is the first with
    # ten times 0.8. Of 3 seeds 2 count. Mean accuracies: 0.8, 0.1 and 10 * 0.8 / 12.
    late = [0.0] * 2 + [0.8] * 10
    trials = [make_rows([0.8] * 12, seed=7), make_rows([0.1] * 12, seed=28), make_rows(late, seed=42)]
    (summary,) = summarize(pd.DataFrame([row for trial in trials for row in trial]), target=0.8)
    assert summary.rounds_to_target.values == (10.0, 12.0)
    assert summary.num_seeds == 3
    assert summary.mean_accuracy.mean == pytest.approx((0.8 + 0.1 + 8 / 12) / 3)
    # Pooled over all 36 rounds: 22 times 0.8, 12 times 0.1, 2 times 0.
    assert summary.accuracy_std == pytest.approx(np.std([0.8] * 22 + [0.1] * 12 + [0.0] * 2))


def test_methods_and_settings_are_summed_up_apart() -> None:
    trials = [make_rows([0.5] * 3), make_rows([0.7] * 3, setting="lr=0.01"), make_rows([0.9] * 3, method="fedavg")]
    summaries = summarize(pd.DataFrame([row for trial in trials for row in trial]), target=0.8)
    assert [(s.label, s.num_seeds, s.mean_accuracy.mean) for s in summaries] == [
        ("bippo", 1, pytest.approx(0.5)),
        ("bippo lr=0.01", 1, pytest.approx(0.7)),
        ("fedavg", 1, pytest.approx(0.9)),
    ]


def test_a_setting_drawn_twice_counts_once_per_seed() -> None:
    short = [{**row, "trial": "first"} for row in make_rows([0.5] * 2)]
    long = [{**row, "trial": "second"} for row in make_rows([0.5] * 4)]
    (summary,) = summarize(pd.DataFrame(short + long), target=0.8)
    assert summary.num_seeds == 1
    assert summary.trials["rounds"].tolist() == [4]
