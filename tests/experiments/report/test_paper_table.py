"""The paper's table: its digits, ours beside it, and what is bold or underlined."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from row_factory import make_rows

from experiments.report.metrics import MethodSummary, summarize
from experiments.report.numbers import as_printed
from experiments.report.paper_table import Cell, mark_best, paper_table
from experiments.scenarios import SCENARIOS

PAPER = SCENARIOS["fashion-mnist"]


def _summaries(*trials: list[dict]) -> list[MethodSummary]:
    return summarize(pd.DataFrame([row for trial in trials for row in trial]), 0.8)


def _lines(*trials: list[dict], rounds: int = 12) -> dict[str, dict[str, str]]:
    return {record[""]: dict(record) for record in paper_table(_summaries(*trials), PAPER, rounds)}


def test_the_papers_rows_are_marked_as_the_paper_marks_them() -> None:
    lines = _lines(make_rows([0.9] * 12))
    assert list(lines["mean accuracy: paper"].values())[1:] == [
        "<u>0.779</u>",
        "**0.787**",
        "0.751",
        "0.759",
        "0.701",
        "0.491",
    ]
    paper = lines["rounds to target, mean: paper"]
    assert [paper[name] for name in ("BIPPO", "FPPO", "IPPO", "PPO", "FedAvg", "PoCA")] == [
        "<u>43.0</u>",
        "**41.75**",
        "66.75",
        "<u>43.0</u>",
        "88.25",
        "–",
    ]


def test_ours_stand_beside_with_the_number_of_seeds() -> None:
    # bippo: 0.9 and 0.7 in all rounds, so 0.8 +- 0.1 pooled; one of two seeds reaches 80 %. ippo: 0.85, reached at 10.
    lines = _lines(make_rows([0.9] * 12), make_rows([0.7] * 12, seed=28), make_rows([0.85] * 12, "ippo"))
    ours = lines["mean accuracy: ours"]
    assert (ours["BIPPO"], ours["IPPO"], ours["PPO"]) == ("<u>0.800</u>", "**0.850**", "–")
    assert lines["seeds (n), ours"]["BIPPO"] == "2" and lines["seeds (n), ours"]["IPPO"] == "1"
    assert lines["std of accuracy (all rounds and seeds): ours"]["BIPPO"] == "<u>0.100</u>"
    reached = lines["rounds to target, mean: ours"]
    assert (reached["BIPPO"], reached["IPPO"]) == ("10.00 (1 of 2)", "10.00")
    # One seed has no spread.
    assert lines["rounds to target, std: ours"]["IPPO"] == "–"


def test_short_trials_are_shown_and_not_ranked() -> None:
    ours = _lines(make_rows([0.9] * 5), make_rows([0.7] * 12, "ippo"), make_rows([0.6] * 12, "poc"))[
        "mean accuracy: ours"
    ]
    assert (ours["BIPPO"], ours["IPPO"], ours["PoC"]) == ("0.900†", "**0.700**", "<u>0.600</u>")


def test_a_reference_is_shown_and_not_ranked() -> None:
    trials = [make_rows([0.7] * 12), make_rows([0.6] * 12, "ippo"), make_rows([0.9] * 12, "oracle")]
    ours = _lines(*trials)["mean accuracy: ours"]
    assert (ours["BIPPO"], ours["IPPO"], ours["(oracle)"]) == ("**0.700**", "<u>0.600</u>", "0.900")


def test_no_table_where_the_paper_has_none_and_in_a_search() -> None:
    assert paper_table(_summaries(make_rows([0.9])), SCENARIOS["digits"], 1) == []
    assert paper_table(_summaries(make_rows([0.9], setting="a"), make_rows([0.9], setting="b")), PAPER, 1) == []


def test_digits_as_the_paper_prints_them() -> None:
    assert [as_printed(value, 3) for value in (43.0, 41.75, 10.416, 0.14)] == ["43.0", "41.75", "10.416", "0.14"]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=7), st.booleans())
def test_all_that_tie_for_best_are_bold_and_for_second_underlined(values: list[int], less_is_better: bool) -> None:
    cells = {f"m{place}": Cell(str(value), float(value)) for place, value in enumerate(values)}
    ranked = sorted(set(values), reverse=not less_is_better)
    expected = [
        f"**{v}**" if v == ranked[0] else f"<u>{v}</u>" if len(ranked) > 1 and v == ranked[1] else str(v)
        for v in values
    ]
    assert list(mark_best(cells, less_is_better).values()) == expected


def test_nothing_is_best_of_one() -> None:
    assert mark_best({"a": Cell("1", 1.0), "b": Cell("–")}, True) == {"a": "1", "b": "–"}
