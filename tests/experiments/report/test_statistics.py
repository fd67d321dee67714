"""Statistics over seeds: golden values, and properties of the bootstrap."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_factory import frame, make_rows

from experiments.report.method_tables import interval_records, paired_records
from experiments.report.metrics import summarize
from experiments.report.statistics import Estimate, Paired
from experiments.report.tables import with_interval


def test_mean_and_population_standard_deviation() -> None:
    # Mean 3; squared distances 4, 0, 4; variance 8 / 3 with ddof 0 (4 with ddof 1).
    estimate = Estimate.of([1.0, 3.0, 5.0])
    assert (estimate.mean, estimate.std, estimate.n) == (3.0, pytest.approx(math.sqrt(8 / 3)), 3)


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    one, none = Estimate.of([0.5]), Estimate.of([])
    assert (one.mean, one.std, one.n, one.interval) == (0.5, 0.0, 1, None)
    assert with_interval(one, 3) == "0.500 (n = 1, no interval)"
    assert math.isnan(none.mean) and math.isnan(none.std) and with_interval(none, 3) == "–"


def test_interval_agrees_with_all_resamples() -> None:
    # The mean of two draws from {1, 3} is 1 with probability 1/4, 2 with 1/2, 3 with 1/4: both 2.5 % tails are ends.
    assert Estimate.of([1.0, 3.0]).interval == (1.0, 3.0)
    # 4 values: all 4^4 = 256 resamples are equally likely, so the percentiles can be had without drawing.
    values = [0.70, 0.74, 0.79, 0.90]
    means = [np.mean(resample) for resample in itertools.product(values, repeat=4)]
    np.testing.assert_allclose(Estimate.of(values).interval, np.percentile(means, [2.5, 97.5]), atol=0.006)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6), st.randoms())
def test_interval_lies_in_the_range_and_ignores_the_order(values: list[float], random) -> None:
    low, high = Estimate.of(values).interval
    assert Estimate.of(random.sample(values, len(values))).interval == (low, high)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


def test_differences_are_paired_by_seed() -> None:
    # Seeds 7 and 28 are in both: 0.8 - 0.7 = 0.1 and 0.6 - 0.9 = -0.3. Mean -0.1, std 0.2; one of two positive.
    paired = Paired.of({7: 0.8, 28: 0.6, 42: 0.1}, {28: 0.9, 7: 0.7, 231: 0.2})
    assert (paired.seeds, paired.wins) == ((7, 28), 1)
    assert (paired.difference.mean, paired.difference.std) == (pytest.approx(-0.1), pytest.approx(0.2))
    assert Paired.of({7: 0.8}, {28: 0.9}).difference.n == 0


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_no_number_of_a_comparison_looks_beyond_the_common_rounds(data) -> None:
    lengths = {(method, seed): data.draw(st.integers(10, 30)) for method in ("bippo", "oracle") for seed in (7, 28)}
    reached_at = {trial: data.draw(st.integers(1, rounds)) for trial, rounds in lengths.items()}
    rows = frame(*(make_rows([0.1] * (at - 1) + [0.9] * (lengths[t] - at + 1), *t) for t, at in reached_at.items()))
    whole, common = summarize(rows, 0.8), summarize(rows[rows["round"] <= min(lengths.values())], 0.8)
    assert paired_records(whole, 0.8) == paired_records(common, 0.8)
    shares = [[record["% of oracle"] for record in interval_records(each, 0.8)] for each in (whole, common)]
    assert shares[0] == shares[1]


def test_every_pair_of_methods_is_compared_on_the_rounds_both_have() -> None:
    # fedavg stopped after 10 rounds at 0.8. bippo's first 10 rounds are 0.9, its later ones 0.1 do not count.
    first, second = make_rows([0.9] * 10 + [0.1] * 10), make_rows([0.8] * 10, "fedavg")
    rows = frame(first, second, make_rows([0.5] * 20, "ippo", 28), make_rows([0.8], "ppo"))
    records = paired_records(summarize(rows, 0.8), 0.8)
    differences = ["bippo − fedavg", "bippo − ppo", "fedavg − ppo"]
    assert [record["difference"] for record in records] == differences
    assert records[0] == {
        "difference": "bippo − fedavg",
        "seeds": "7",
        "rounds": "1–10",
        "mean accuracy": "+0.100 (n = 1, no interval)",
        "first is higher in": "1 of 1",
        "rounds to 80 %": "0.0 (n = 1, no interval)",
        "seeds that both reached it": "1",
    }
    search = frame(make_rows([0.5], setting="lr=1"), make_rows([0.5], setting="lr=2"))
    assert paired_records(summarize(search), 0.8) == []


def test_mean_accuracy_is_compared_with_a_reference_seed_by_seed() -> None:
    # 0.6 / 0.8 = 75 % with seed 7, 0.9 / 0.9 = 100 % with seed 28; seed 42 has no partner. Mean 87.5, std 12.5.
    trials = [make_rows([accuracy], seed=seed) for seed, accuracy in ((7, 0.6), (28, 0.9), (42, 0.1))]
    rows = frame(*trials, make_rows([0.8], "oracle", 7), make_rows([0.9], "oracle", 28))
    bippo, bound = interval_records(summarize(rows, 0.8), 0.8)
    assert bippo["% of oracle"] == "87.5 ± 12.5 [75.0, 100.0]"
    assert (bound["method"], bound["% of oracle"]) == ("(oracle)", "–")


def test_the_interval_table_has_how_many_missed_the_target() -> None:
    (record,) = interval_records(summarize(frame(make_rows([0.9] * 10), make_rows([0.1] * 10, seed=28)), 0.8), 0.8)
    assert record["mean accuracy"] == "0.500 ± 0.400 [0.100, 0.900]"
    assert record["rounds to 80 %"] == "10.0 (n = 1, no interval) (missed by 1)"
