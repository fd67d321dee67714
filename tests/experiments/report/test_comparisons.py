"""Churn and jump-start: which clients came and went, and what is compared with what."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from row_factory import frame, make_rows, write_trial

from experiments.report import comparison_sections as comparison_sections_module
from experiments.report.churn import find_churn, trial_changes
from experiments.report.comparison_sections import check_against, comparison_sections
from experiments.report.comparisons import compare_rows, on_common_rounds
from experiments.report.merged import Results, read_results
from experiments.results.run_info import RunInfo, write_run_info

INFO = RunInfo("digits", 0.8, 30, {"dataset": "digits"}, ["bippo"], [7])


def _with_clients(trial: list[dict], after: int, clients: list[int]) -> list[dict]:
    for row in trial[after:]:
        row["clients"] = clients
    return trial


def test_a_change_shows_in_the_round_after() -> None:
    rows = frame(_with_clients(_with_clients(make_rows([0.5] * 6), 2, [0, 2, 3]), 4, [0, 3]))
    assert trial_changes(rows) == {2: ({2, 3}, {1}), 4: (set(), {2})}
    churn = find_churn(rows)
    assert churn.first_round == 3 and churn.marks == {2: "+2 −1", 4: "−1"}
    assert churn.text == "2 clients join and 1 client leaves after round 2, 1 client leaves after round 4"
    assert find_churn(frame(make_rows([0.5] * 6))) is None


def test_churn_that_differs_between_trials_is_counted_and_not_drawn() -> None:
    churned = _with_clients(make_rows([0.5] * 6), 4, [0])
    # A trial that is still running agrees with the longer ones; after five rounds it would have lost client 1.
    assert find_churn(frame(churned, make_rows([0.5] * 3, seed=28))).marks == {4: "−1"}
    random = find_churn(frame(churned, make_rows([0.5] * 5, seed=28)))
    assert random.marks == {} and random.first_round == 5
    assert "0.0 joins and 0.5 leaves per trial" in random.text


def test_churn_is_compared_from_the_first_round_it_shows_in() -> None:
    # Rounds 1-4 at 0.6 against 0.5; a client leaves after round 4: rounds 5-6 (all that both have) 0.2 against 0.9.
    # Seed 28 and fedavg have no partner.
    rows = frame(
        _with_clients(make_rows([0.6] * 4 + [0.2] * 3), 4, [0]),
        _with_clients(make_rows([0.1] * 7, seed=28), 4, [0]),
        _with_clients(make_rows([0.1] * 7, "fedavg"), 4, [0]),
    )
    without, first = frame(make_rows([0.5] * 4 + [0.9] * 2)), find_churn(rows).first_round
    (bippo, fedavg) = (rows[rows["method"] == method] for method in ("bippo", "fedavg"))
    assert compare_rows(fedavg, without[without["method"] == "fedavg"]) is None
    before, after = compare_rows(bippo, without, 1, first - 1), compare_rows(bippo, without, first)
    assert (before.first, before.last, before.accuracy.difference.mean) == (1, 4, pytest.approx(0.1))
    assert (after.first, after.last) == (5, 6)
    assert (after.accuracy.ours.mean, after.accuracy.others.mean) == (pytest.approx(0.2), pytest.approx(0.9))
    assert after.accuracy.difference.mean == pytest.approx(-0.7) and after.accuracy.seeds == (7,)


def test_jump_start_is_over_twenty_rounds_and_over_all() -> None:
    # Seed 7, first 20 rounds: 0.6 against 0.2; all 30: (12 + 9) / 30 = 0.7 against (4 + 8) / 30 = 0.4.
    pretrained = frame(*(make_rows([0.6] * 20 + [0.9] * 10, seed=seed) for seed in (7, 28)))
    scratch = frame(*(make_rows([low] * 20 + [0.8] * 10, seed=seed) for seed, low in ((7, 0.2), (28, 0.4))))
    early, whole = compare_rows(pretrained, scratch, last=20), compare_rows(pretrained, scratch)
    assert (early.first, early.last, whole.last) == (1, 20, 30)
    # Seed 7: 0.4, seed 28: 0.2; mean 0.3, std 0.1.
    assert early.accuracy.difference.mean == pytest.approx(0.3)
    assert early.accuracy.difference.std == pytest.approx(0.1) and early.accuracy.wins == 2
    assert whole.accuracy.ours.mean == pytest.approx(0.7)
    assert whole.accuracy.others.mean == pytest.approx((0.4 + 16 / 30) / 2)


def test_only_common_seeds_and_rounds_are_compared() -> None:
    ours, theirs = (frame(*(make_rows([0.5, 0.6], seed=seed) for seed in seeds)) for seeds in ((7, 42), (7, 28)))
    assert [set(rows["seed"]) for rows in on_common_rounds(ours, theirs)] == [{7}, {7}]
    alone = ours[ours["seed"] == 42]
    assert all(rows.empty for rows in on_common_rounds(alone, theirs)) and compare_rows(alone, theirs) is None
    assert compare_rows(ours, ours, first=4) is None


def _study(
    folder: Path, accuracy: list[float], after: int | None = None, budget_j: float = 2.0, **info: object
) -> Results:
    """A study of one trial, in which client 1 leaves ``after`` a round."""
    trial = make_rows(accuracy, budget_j=budget_j)
    write_trial(folder, trial if after is None else _with_clients(trial, after, [0]))
    write_run_info(folder, dataclasses.replace(INFO, **info))  # type: ignore[arg-type]
    return read_results([folder])


def test_sections_appear_only_where_they_apply(tmp_path: Path, blank_figures: None) -> None:
    plain = _study(tmp_path / "plain", [0.5] * 30)
    churned = _study(tmp_path / "churned", [0.4] * 30, after=20)
    pretrained = _study(tmp_path / "pretrained", [0.7] * 30, init_from="runs/x/checkpoint")
    assert comparison_sections(plain, None, tmp_path) == []
    (hint,) = comparison_sections(churned, None, tmp_path)
    assert "--against" in hint
    churn = "\n\n".join(comparison_sections(churned, plain, tmp_path))
    assert churn.startswith("## Churn\n\n1 client leaves after round 20.") and (tmp_path / "churn.svg").exists()
    assert "| bippo | 21–30 | 7 | 0.400 (n = 1, no interval) | 0.500 (n = 1, no interval) | −0.100" in churn
    transfer = "\n\n".join(comparison_sections(pretrained, plain, tmp_path))
    assert "Policies from `runs/x/checkpoint` beside" in transfer and (tmp_path / "transfer.png").exists()
    assert "| bippo | 1–20 | 7 | 0.700" in transfer and "| bippo | 1–30 | 7 | 0.700" in transfer


def test_the_churn_figure_ends_with_the_compared_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(comparison_sections_module, "save_image", lambda figure, *_: figures.append(figure) or "")
    short, long = _study(tmp_path / "short", [0.4] * 30, after=20), _study(tmp_path / "long", [0.5] * 60)
    comparison_sections(short, long, tmp_path)
    # The other way round: of 60 rounds with a change after 50 only the first 30 have a partner.
    comparison_sections(_study(tmp_path / "late", [0.4] * 60, 50), _study(tmp_path / "plain", [0.5] * 30), tmp_path)
    for figure in figures:
        axes = figure.axes[0]
        assert [max(line.get_xdata()) for line in axes.lines[:2]] == [30, 30] and axes.get_xlim()[1] < 32


def test_unequal_budgets_are_named(tmp_path: Path, blank_figures: None) -> None:
    churned = _study(tmp_path / "churned", [0.4] * 30, after=20, budget_j=2.5)
    for name, budget_j in (("plain", 2.0), ("alike", 2.5)):
        other = _study(tmp_path / name, [0.5] * 30, budget_j=budget_j)
        text = "\n\n".join(comparison_sections(churned, other, tmp_path))
        assert ("is 2.5 J with churn and 2 J without" in text) == (name == "plain") == ("budget" in text)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"target_accuracy": 0.4}, "target is 0.8 .* 0.4"),
        ({"federation": {"dataset": "cifar10"}}, "dataset is digits .* cifar10"),
        ({"init_from": "other"}, "pretrained too"),
        ({"search": {"lr": "uniform(0,1)"}}, "other is a search"),
        ({"settings": {"lr": 0.01}}, "bippo: lr is not set .* 0.01"),
        ({"federation": {**INFO.federation, "lr": 1.0}}, "env.lr is None .* 1.0"),
    ],
)
def test_studies_that_do_not_compare_are_refused(tmp_path: Path, changes: dict, named: str) -> None:
    pretrained = _study(tmp_path / "pretrained", [0.7] * 30, init_from="checkpoint")
    with pytest.raises(ValueError, match=named):
        check_against(pretrained, _study(tmp_path / "other", [0.5] * 30, **changes))


def test_only_pretrained_policies_may_explore_otherwise(tmp_path: Path) -> None:
    scratch = _study(tmp_path / "scratch", [0.5] * 30)
    check_against(_study(tmp_path / "a", [0.7] * 30, init_from="x", settings={"epsilon": 1.0}), scratch)
    churned = _study(tmp_path / "b", [0.4] * 30, after=20, settings={"epsilon": 1.0})
    with pytest.raises(ValueError, match=r"bippo: epsilon is 1\.0 .* not set"):
        check_against(churned, scratch)
    with pytest.raises(ValueError, match="has churn too"):
        check_against(churned, churned)
