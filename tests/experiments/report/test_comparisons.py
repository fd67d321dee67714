"""Churn and jump-start: who came and went, and what is compared with what."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from row_factory import make_rows, write_trial

from experiments.report import comparison_sections as comparison_sections_module
from experiments.report.churn_moments import Moment, find_churn, trial_moments
from experiments.report.comparison_sections import check_against, comparison_sections
from experiments.report.comparisons import compare_rows, on_common_rounds
from experiments.report.results import read_results
from experiments.results.run_info import RunInfo, write_run_info

INFO = RunInfo("digits", 0.8, 30, {"dataset": "digits"}, ["bippo"], [7])


def _rows(*trials: list[dict]) -> pd.DataFrame:
    return pd.DataFrame([row for trial in trials for row in trial])


def _with_clients(trial: list[dict], after: int, clients: list[int]) -> list[dict]:
    for row in trial[after:]:
        row["clients"] = clients
    return trial


def test_a_change_shows_in_the_round_after() -> None:
    rows = _rows(_with_clients(_with_clients(make_rows([0.5] * 6), 2, [0, 2, 3]), 4, [0, 3]))
    assert trial_moments(rows) == [Moment(2, (2, 3), (1,)), Moment(4, (), (2,))]
    churn = find_churn(rows)
    assert churn.first_round == 3 and churn.drawable
    assert str(churn) == "2 clients join and 1 client leaves after round 2, 1 client leaves after round 4"
    assert [moment.label for moment in churn.moments] == ["+2 −1", "−1"]
    assert find_churn(_rows(make_rows([0.5] * 6))) is None


def test_a_trial_that_is_still_running_agrees_with_the_longer_ones() -> None:
    churned = _with_clients(make_rows([0.5] * 6), 4, [0])
    assert find_churn(_rows(churned, make_rows([0.5] * 3, seed=28))).same_in_all
    # After five rounds it would have had to lose client 1.
    assert not find_churn(_rows(churned, make_rows([0.5] * 5, seed=28))).same_in_all


def test_random_churn_is_counted_and_not_drawn() -> None:
    churn = find_churn(_rows(_with_clients(make_rows([0.5] * 6), 4, [0]), make_rows([0.5] * 6, seed=28)))
    assert not churn.drawable
    assert str(churn) == "clients come and go from round 5 on, 0.0 joins and 0.5 leaves per trial"


def test_churn_is_compared_from_the_first_round_it_shows_in() -> None:
    # Rounds 1-4 at 0.6 against 0.5; a client leaves after round 4: rounds 5-6 (all that both have) 0.2 against 0.9.
    # Seed 28 and fedavg have no partner.
    rows = _rows(
        _with_clients(make_rows([0.6] * 4 + [0.2] * 3), 4, [0]),
        _with_clients(make_rows([0.1] * 7, seed=28), 4, [0]),
        _with_clients(make_rows([0.1] * 7, "fedavg"), 4, [0]),
    )
    without, first = _rows(make_rows([0.5] * 4 + [0.9] * 2)), find_churn(rows).first_round
    (bippo, fedavg) = (rows[rows["method"] == method] for method in ("bippo", "fedavg"))
    assert compare_rows(fedavg, without[without["method"] == "fedavg"]) is None
    before, after = compare_rows(bippo, without, 1, first - 1), compare_rows(bippo, without, first)
    assert (before.first, before.last, before.accuracy.difference.mean) == (1, 4, pytest.approx(0.1))
    assert (after.first, after.last) == (5, 6)
    assert (after.accuracy.ours.mean, after.accuracy.others.mean) == (pytest.approx(0.2), pytest.approx(0.9))
    assert after.accuracy.difference.mean == pytest.approx(-0.7) and after.accuracy.seeds == (7,)


def test_jump_start_is_over_twenty_rounds_and_over_all() -> None:
    # Seed 7, first 20 rounds: 0.6 against 0.2; all 30: (12 + 9) / 30 = 0.7 against (4 + 8) / 30 = 0.4.
    pretrained = _rows(make_rows([0.6] * 20 + [0.9] * 10), make_rows([0.6] * 20 + [0.9] * 10, seed=28))
    scratch = _rows(make_rows([0.2] * 20 + [0.8] * 10), make_rows([0.4] * 20 + [0.8] * 10, seed=28))
    early, whole = compare_rows(pretrained, scratch, last=20), compare_rows(pretrained, scratch)
    assert (early.first, early.last, whole.last) == (1, 20, 30)
    # Seed 7: 0.4, seed 28: 0.2; mean 0.3, std 0.1.
    assert early.accuracy.difference.mean == pytest.approx(0.3)
    assert early.accuracy.difference.std == pytest.approx(0.1) and early.accuracy.wins == 2
    assert whole.accuracy.ours.mean == pytest.approx(0.7)
    assert whole.accuracy.others.mean == pytest.approx((0.4 + 16 / 30) / 2)


def test_nothing_in_common_is_no_comparison() -> None:
    rows = _rows(make_rows([0.5] * 3))
    assert compare_rows(rows, _rows(make_rows([0.5] * 3, seed=28))) is None
    assert compare_rows(rows, rows, first=4) is None


def _study(
    folder: Path, accuracy: list[float], churn_after: int | None = None, budget_j: float = 2.0, **changes: object
) -> Path:
    trial = make_rows(accuracy, budget_j=budget_j)
    write_trial(folder, trial if churn_after is None else _with_clients(trial, churn_after, [0]))
    write_run_info(folder, dataclasses.replace(INFO, **changes))  # type: ignore[arg-type]
    return folder


def test_sections_appear_only_where_they_apply(tmp_path: Path) -> None:
    plain = read_results([_study(tmp_path / "plain", [0.5] * 30)])
    churned = read_results([_study(tmp_path / "churned", [0.4] * 30, churn_after=20)])
    pretrained = read_results([_study(tmp_path / "pretrained", [0.7] * 30, init_from="runs/x/checkpoint")])
    assert comparison_sections(plain, None, tmp_path) == []
    assert comparison_sections(churned, None, tmp_path) == [
        "`--against DIR` adds a comparison with a run without churn."
    ]
    churn = "\n\n".join(comparison_sections(churned, plain, tmp_path))
    assert churn.startswith("## Churn\n\n1 client leaves after round 20.") and (tmp_path / "churn.svg").exists()
    assert "| bippo | 21–30 | 7 | 0.400 (n = 1, no interval) | 0.500 (n = 1, no interval) | −0.100" in churn
    transfer = "\n\n".join(comparison_sections(pretrained, plain, tmp_path))
    assert "Policies from `runs/x/checkpoint` beside" in transfer and (tmp_path / "transfer.png").exists()
    assert "| bippo | 1–20 | 7 | 0.700" in transfer and "| bippo | 1–30 | 7 | 0.700" in transfer


def test_the_churn_figure_ends_with_the_compared_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []

    def keep(figure: Figure, *_: object) -> str:
        figures.append(figure)
        return ""

    monkeypatch.setattr(comparison_sections_module, "save_image", keep)
    short = read_results([_study(tmp_path / "short", [0.4] * 30, churn_after=20)])
    long = read_results([_study(tmp_path / "long", [0.5] * 60)])
    comparison_sections(short, long, tmp_path)
    # The other way round: of 60 rounds with a change after 50 only the first 30 have a partner.
    late = read_results([_study(tmp_path / "late", [0.4] * 60, churn_after=50)])
    comparison_sections(late, read_results([_study(tmp_path / "plain", [0.5] * 30)]), tmp_path)
    for figure in figures:
        axes = figure.axes[0]
        assert [max(line.get_xdata()) for line in axes.lines[:2]] == [30, 30] and axes.get_xlim()[1] < 32


def test_unequal_budgets_are_said(tmp_path: Path) -> None:
    churned = read_results([_study(tmp_path / "churned", [0.4] * 30, churn_after=20, budget_j=2.5)])
    text = "\n\n".join(comparison_sections(churned, read_results([_study(tmp_path / "plain", [0.5] * 30)]), tmp_path))
    assert "the budget of a compared round is 2.5 J with churn and 2 J without" in text
    alike = read_results([_study(tmp_path / "alike", [0.5] * 30, budget_j=2.5)])
    text = "\n\n".join(comparison_sections(churned, alike, tmp_path))
    assert "budget" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_accuracy": 0.4}, "target is 0.8 in the first and 0.4 in the second"),
        ({"federation": {"dataset": "cifar10"}}, "dataset is digits in the first and cifar10 in the second"),
        ({"init_from": "other"}, "is pretrained too; name a run from scratch"),
        ({"search": {"lr": "uniform(0,1)"}}, "other is a search, whose settings differ"),
        ({"settings": {"lr": 0.01}}, "both have bippo: lr is not set in the first and 0.01 in the second"),
        ({"federation": {**INFO.federation, "lr": 1.0}}, "env.lr is None in the first and 1.0 in the second"),
    ],
)
def test_studies_that_do_not_compare_are_refused(tmp_path: Path, changes: dict, message: str) -> None:
    pretrained = read_results([_study(tmp_path / "pretrained", [0.7] * 30, init_from="checkpoint")])
    other = read_results([_study(tmp_path / "other", [0.5] * 30, **changes)])
    with pytest.raises(ValueError, match=message):
        check_against(pretrained, other)


def test_pretrained_policies_may_explore_as_if_they_were_not(tmp_path: Path) -> None:
    pretrained = read_results([_study(tmp_path / "a", [0.7] * 30, init_from="x", settings={"epsilon": 1.0})])
    scratch = read_results([_study(tmp_path / "b", [0.5] * 30)])
    check_against(pretrained, scratch)
    section = "\n\n".join(comparison_sections(pretrained, scratch, tmp_path))
    assert section.startswith("## Jump-start") and "| bippo | 1–20 | 7 | 0.700" in section
    churned = read_results([_study(tmp_path / "c", [0.4] * 30, churn_after=20, settings={"epsilon": 1.0})])
    with pytest.raises(ValueError, match=r"both have bippo: epsilon is 1\.0 in the first and not set in the second"):
        check_against(churned, scratch)


def test_churn_does_not_compare_with_churn(tmp_path: Path) -> None:
    churned = read_results([_study(tmp_path / "churned", [0.4] * 30, churn_after=20)])
    with pytest.raises(ValueError, match="has churn too; name a run without"):
        check_against(churned, churned)


def test_the_figure_shows_the_seeds_that_both_have() -> None:
    ours, theirs = (_rows(*(make_rows([0.5, 0.6], seed=seed) for seed in seeds)) for seeds in ((7, 42), (7, 28)))
    shown = on_common_rounds(ours, theirs)
    assert [sorted(set(rows["seed"])) for rows in shown] == [[7], [7]]
    assert all(rows.empty for rows in on_common_rounds(ours[ours["seed"] == 42], theirs))
