"""The paper's table: its digits, ours beside it, and what is bold or underlined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_factory import frame, make_rows

from experiments.report.metrics import summarize
from experiments.report.paper_table import Cell, mark_best, paper_table
from experiments.scenarios import SCENARIOS

PAPER = SCENARIOS["fashion-mnist"]


def _lines(*trials: list[dict]) -> dict[str, dict[str, str]]:
    return {record[""]: dict(record) for record in paper_table(summarize(frame(*trials), 0.8), PAPER, rounds=12)}


def test_the_papers_rows_are_marked_as_the_paper_marks_them() -> None:
    lines = _lines(make_rows([0.9] * 12))
    accuracy = ["<u>0.779</u>", "**0.787**", "0.751", "0.759", "0.701", "0.491"]
    assert list(lines["mean accuracy: paper"].values())[1:] == accuracy
    paper = lines["rounds to target, mean: paper"]
    found = [paper[name] for name in ("BIPPO", "FPPO", "IPPO", "PPO", "FedAvg", "PoCA")]
    assert found == ["<u>43.0</u>", "**41.75**", "66.75", "<u>43.0</u>", "88.25", "–"]


def test_ours_stand_beside_with_the_number_of_seeds() -> None:
    # bippo: 0.9 and 0.7 in all rounds, so 0.8 +- 0.1 pooled; one of two seeds reaches 80 %. ippo: 0.85, reached at 10.
    lines = _lines(make_rows([0.9] * 12), make_rows([0.7] * 12, seed=28), make_rows([0.85] * 12, "ippo"))
    ours = lines["mean accuracy: ours"]
    assert (ours["BIPPO"], ours["IPPO"], ours["PPO"]) == ("<u>0.800</u>", "**0.850**", "–")
    assert (lines["seeds (n), ours"]["BIPPO"], lines["seeds (n), ours"]["IPPO"]) == ("2", "1")
    assert lines["std of accuracy (all rounds and seeds): ours"]["BIPPO"] == "<u>0.100</u>"
    reached = lines["rounds to target, mean: ours"]
    assert (reached["BIPPO"], reached["IPPO"]) == ("10.00 (1 of 2)", "10.00")
    # One seed has no spread.
    assert lines["rounds to target, std: ours"]["IPPO"] == "–"


@pytest.mark.parametrize(("rounds", "method", "shown"), [(5, "fedavg", "0.900†"), (12, "oracle", "0.900")])
def test_short_trials_and_references_are_shown_and_not_ranked(rounds: int, method: str, shown: str) -> None:
    lines = _lines(make_rows([0.7] * 12), make_rows([0.6] * 12, "ippo"), make_rows([0.9] * rounds, method))
    ours = lines["mean accuracy: ours"]
    heading = "FedAvg" if method == "fedavg" else "(oracle)"
    assert (ours["BIPPO"], ours["IPPO"], ours[heading]) == ("**0.700**", "<u>0.600</u>", shown)


def test_no_table_where_the_paper_has_none_and_in_a_search() -> None:
    assert paper_table(summarize(frame(make_rows([0.9]))), SCENARIOS["digits"], 1) == []
    assert _lines(make_rows([0.9], setting="a"), make_rows([0.9], setting="b")) == {}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=7), st.booleans())
def test_all_that_tie_for_best_are_bold_and_for_second_underlined(values: list[int], less_is_better: bool) -> None:
    cells = {f"m{index}": Cell(str(value), float(value)) for index, value in enumerate(values)}
    first, second = [*sorted(set(values), reverse=not less_is_better), None][:2]
    marks = {first: "**{}**", second: "<u>{}</u>"} if len(values) > 1 else {}
    expected = [marks.get(value, "{}").format(value) for value in values]
    assert list(mark_best({**cells, "unranked": Cell("–")}, less_is_better).values()) == [*expected, "–"]
