"""The report: its tables, what is named as missing, and the paper's numbers beside ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_factory import make_rows, write_trial

from experiments.methods import METHODS
from experiments.report import command
from experiments.report.report_md import write_report
from experiments.report.summary import Report, build_report
from experiments.report.tables import markdown_table, text_table
from experiments.results import checkpoints
from experiments.results.checkpoints import write_manifest
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, SelectorNetwork, add_warmup_energy, write_run_info
from experiments.study.asha_journal import JOURNAL_FILE, Decision, append_decision

INFO = RunInfo("digits", 0.8, 12, {"dataset": "digits"}, ["fedavg", "bippo"], [7, 28], command="bippo tune")
CLIENTS = [ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)]
RECORD = FederationRecord(["zero", "one"], 5, ModelRecord("cnn", 10, 100), CLIENTS)
SEARCH: dict[str, Any] = {"methods": ["bippo"], "seeds": [7], "search": {"lr": "loguniform(1e-4,1e-1)"}}
HIGH, LOW = [0.9] * 12, [0.5] * 12


def _report(folder: Path, *trials: list[dict], **changes: Any) -> Report:
    """The report of these trials; the study was asked for what ``INFO`` says, but for ``changes``."""
    for trial in trials:
        write_trial(folder, trial)
    write_run_info(folder, dataclasses.replace(INFO, **changes))
    return build_report(folder)


def _text(report: Report, folder: Path) -> str:
    return write_report(report, folder)[0].read_text()


def test_table_golden(tmp_path: Path) -> None:
    # bippo: 0.9 twice, reached at round 10 both times. fedavg: 0.5 never, then 0.9 at 10: 0.700 +- 0.200, 1 of 2.
    # Every round spends 2 J of 2 J, 12 rounds 24 J.
    cases = (("bippo", 7, HIGH), ("bippo", 28, HIGH), ("fedavg", 7, LOW), ("fedavg", 28, HIGH))
    fedavg, bippo = _report(tmp_path, *(make_rows(accuracy, method, seed) for method, seed, accuracy in cases)).records
    assert dict(bippo) == {
        "method": "bippo",
        "seeds": "2",
        "mean accuracy": "0.900 ± 0.000",
        "rounds to 80 %": "10.0 ± 0.0",
        "J/round": "2.000 ± 0.000",
        "% of budget": "100.0",
        "total J": "24.00 ± 0.00",
    }
    assert (fedavg["mean accuracy"], fedavg["rounds to 80 %"]) == ("0.700 ± 0.200", "10.0 (reached 1 of 2)")


def test_a_reference_comes_last_with_a_note(tmp_path: Path, blank_figures: None) -> None:
    trials = (make_rows(HIGH, method) for method in ("oracle", "bippo"))
    found = _report(tmp_path, *trials, methods=["oracle", "bippo"], seeds=[7])
    assert [record["method"] for record in found.records] == ["bippo", "(oracle)"]
    assert METHODS["oracle"].description in found.text() and METHODS["oracle"].description in _text(found, tmp_path)


def test_one_seed_has_no_spread_and_energies_share_a_unit_of_four_digits(tmp_path: Path) -> None:
    # 12 rounds of 0.1 J are 1.2 J in all, so that the totals of both are in joules.
    fedavg, bippo = _report(
        tmp_path,
        make_rows(LOW, energy_j=0.01337123, budget_j=0.015),
        make_rows(LOW, "fedavg", energy_j=0.1, budget_j=0.2),
    ).records
    assert (bippo["mean accuracy"], bippo["rounds to 80 %"]) == ("0.500", "reached 0 of 1")
    assert (bippo["mJ/round"], bippo["% of budget"], bippo["total J"]) == ("13.37", "89.1", "0.1605")
    assert (fedavg["mJ/round"], fedavg["total J"]) == ("100.0", "1.200")


def test_late_accuracy_is_a_column_only_of_long_studies(tmp_path: Path) -> None:
    fedavg, bippo = _report(tmp_path, make_rows([0.5] * 100 + [0.9]), make_rows([0.5] * 100, "fedavg")).records
    assert (bippo["accuracy > round 100"], fedavg["accuracy > round 100"]) == ("0.900", "–")
    assert (bippo["rounds"], fedavg["rounds"]) == ("101", "100")


def test_every_method_that_ran_less_than_asked_is_named(tmp_path: Path, blank_figures: None) -> None:
    short = make_rows(HIGH[:5], "bippo", 28)
    found = _report(tmp_path, make_rows(HIGH, "bippo", 7), short, make_rows(HIGH, "fedavg", 28))
    assert found.shortfalls == ["fedavg with seed 7 has no rows", "bippo with seed 28 has 5 of 12 rounds"]
    assert "note: fedavg with seed 7 has no rows" in found.text()
    assert "## Missing or incomplete\n\n- fedavg with seed 7" in _text(found, tmp_path)
    # Without run.json, the longest trial and all seeds and methods are what was asked for.
    (tmp_path / "run.json").unlink()
    expected = ["bippo with seed 28 has 5 of 12 rounds", "fedavg with seed 7 has no rows"]
    assert build_report(tmp_path).shortfalls == expected


@pytest.mark.parametrize("search", [{}, {"search": SEARCH["search"]}])
def test_a_trial_that_all_clients_left_has_all_rounds_there_can_be(
    tmp_path: Path, search: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "bippo-seed7" / "checkpoint_000000"
    checkpoint.mkdir(parents=True)
    write_manifest(checkpoint, 5, over=True)
    (checkpoint / "policies").write_bytes(b"")
    monkeypatch.setattr(checkpoints, "sha256", None)  # checkpoints may be large, and are not read
    found = _report(tmp_path, *(make_rows(HIGH[:5], seed=seed) for seed in (7, 28)), methods=["bippo"], **search)
    first = "bippo with seed 7 has 5 of 12 rounds, after which no client was left"
    in_search = ["bippo: 1 of 2 trials have not finished (resume them with --resume)"]
    assert found.shortfalls == (in_search if search else [first, "bippo with seed 28 has 5 of 12 rounds"])


def test_trainings_that_failed_are_named(tmp_path: Path) -> None:
    rows = make_rows(HIGH)
    rows[2]["failed"], rows[5]["failed"] = [1, 0], [1]
    found = _report(tmp_path, rows, methods=["bippo"], seeds=[7])
    assert found.shortfalls == ["bippo-seed7: training failed in 2 rounds, of clients 0, 1"]


def test_a_search_lists_settings_by_length_then_accuracy(tmp_path: Path) -> None:
    settings = {"lr=0.1": [0.99] * 4, "lr=0.01": [0.6] * 12, "lr=0.001": HIGH, "lr=0.2": HIGH[:3]}
    trials = (make_rows(accuracy, setting=setting) for setting, accuracy in settings.items())
    append_decision(tmp_path / JOURNAL_FILE, Decision("bippo-seed7-lr=0.1", "bippo", 7, 4, 0.99, stop=True))
    found = _report(tmp_path, *trials, **{**SEARCH, "methods": ["bippo", "ippo"]}, num_samples=5)
    assert [summary.setting for summary in found.summaries] == ["lr=0.001", "lr=0.01", "lr=0.1", "lr=0.2"]
    assert found.shortfalls == [
        "bippo: ASHA stopped 1 of 4 trials before round 12",
        "bippo: 1 of 4 trials have not finished (resume them with --resume)",
        "bippo: 4 of 5 trials have rows",
        "ippo: 0 of 5 trials have rows",
    ]


def test_figures_of_a_search_show_the_best_settings(tmp_path: Path, blank_figures: None) -> None:
    trials = (make_rows(LOW, setting=f"lr=0.{place}") for place in range(1, 10))
    text = _text(_report(tmp_path, *trials, **SEARCH, num_samples=9), tmp_path)
    assert "best 7 settings; 2 more" in text and "Statistics" not in text


def test_every_section_has_its_figure_and_the_same_rows_the_same_bytes(tmp_path: Path, blank_figures: None) -> None:
    networks = {"bippo": [SelectorNetwork(central=False, epochs=8, hidden_size=128, critic=True)], "fedavg": [None]}
    trials = [make_rows(HIGH, method, seed) for method in ("bippo", "fedavg") for seed in (7, 28)]
    found = _report(tmp_path, *trials, federation_record=RECORD, networks=networks)
    add_warmup_energy(tmp_path, {"bippo-seed7": 1.5, "bippo-seed28": 2.5})
    text = _text(build_report(tmp_path), tmp_path)
    figures = re.findall(r"!\[[^]]+\]\((\w+)\.png\)", text)
    assert figures == ["accuracy", "energy", "selection"] and found.heading in text
    assert all((tmp_path / f"{name}.{kind}").exists() for name in figures for kind in ("png", "svg"))
    assert "| fedavg − bippo | 7, 28 | 1–12 | 0.000 ± 0.000 [0.000, 0.000] | 0 of 2 |" in text
    # Both seeds: 0.9 in all rounds.
    assert "| method | 1–10 | 11–12 |" in text and "| bippo | 0.900 ± 0.000 | 0.900 ± 0.000 |" in text
    assert "| 0 | 50 | 700 | 1 J | 2 | zero: 30, one: 20 |" in text
    # Client 1, with one label, trains alone in every round.
    assert "| bippo | 1.00 | 1.0 | 0 % | 100 % | 0 % |" in text
    # RL: 1 sample x 8 epochs x 3 x 1,664; FL: 40 samples x 5 epochs x 3 x 100 = 60,000.
    assert "| bippo | 1.00 | 1,664 | 39,936 | 6.0·10⁴ | 1 : 2 |" in text
    assert "| fedavg | 1.00 | – | – | 6.0·10⁴ | – |" in text
    assert "`bippo tune`" in text and "2 J per trial" in text and "Compared with the paper" not in text
    assert _text(build_report(tmp_path), tmp_path / "again") == text


def test_the_papers_numbers_stand_beside_ours(tmp_path: Path, blank_figures: None) -> None:
    trials = (make_rows(HIGH, method, scenario="fashion-mnist") for method in ("bippo", "unheard-of"))
    text = _text(_report(tmp_path, *trials, scenario="fashion-mnist"), tmp_path)
    assert "## Compared with the paper (section 5.2)" in text and "here 12 rounds were run" in text
    assert "| rounds to target, mean: paper | <u>43.0</u> | **41.75** | 66.75 |" in text
    assert "not the paper's" not in text


def test_what_is_not_the_papers_does_not_stand_beside_it(tmp_path: Path, blank_figures: None) -> None:
    trial = make_rows(HIGH, "bippo", scenario="fashion-mnist")
    _report(tmp_path / "a", trial, scenario="fashion-mnist")
    other_target = _text(build_report(tmp_path / "a", target=0.5), tmp_path)
    assert "Compared with the paper" not in other_target
    settings = {"env.budget_share": 0.5, "lr": 0.1}
    changed = _text(_report(tmp_path / "b", trial, scenario="fashion-mnist", settings=settings), tmp_path)
    assert "The federation is not the paper's: env.budget_share=0.5." in changed


def test_energy_of_probing_is_named_where_it_was_charged(tmp_path: Path, blank_figures: None) -> None:
    # 0.5 J of 2 J in every round; bippo was not charged.
    assert "Part of the energy" not in _text(_report(tmp_path, make_rows(HIGH)), tmp_path)
    text = _text(_report(tmp_path, make_rows(HIGH, "poc", probing_j=0.5)), tmp_path)
    assert "Part of the energy that was spent on probing: poc 25.0 %." in text


def test_a_study_may_have_a_name_and_another_target(
    tmp_path: Path, blank_figures: None, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trial(tmp_path, make_rows([0.5] * 10 + [0.7] * 10))
    assert command.main([str(tmp_path), "--name", "My own", "--target", "0.7"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# My own: ") and "rounds to 70 %" in text and "| bippo | 1 | 0.600 | 20.0 |" in text
    assert "bippo        1           0.600             20.0" in capsys.readouterr().out


def test_headings_name_custom_data_churn_and_one_of_a_thing(tmp_path: Path) -> None:
    alone = {"num_clients": 1, "clients": [0], "trained": [0], "costs_j": [2.0]}
    assert _report(tmp_path / "a", make_rows([0.5], **alone)).heading == "digits: 1 client, 1 round, seed 7"
    trial = make_rows(HIGH)
    for row in trial[6:]:
        row["clients"] = [1]
    heading = _report(tmp_path / "b", trial, federation={"dataset": "mine:load"}).heading
    assert heading == "mine:load: 2 clients, 12 rounds, seed 7; 1 client leaves after round 6"


def test_several_folders_make_one_report(
    tmp_path: Path, blank_figures: None, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, output = tmp_path / "first", tmp_path / "second", tmp_path / "both"
    _report(first, *(make_rows(HIGH, "bippo", seed) for seed in (7, 28)), methods=["bippo"])
    _report(second, make_rows(HIGH, "poc"), methods=["poc"], seeds=[7])
    assert command.main([str(first), str(second)]) == 2
    assert "--output" in capsys.readouterr().err
    assert command.main([str(first), str(second), "--output", str(output)]) == 0
    text = (output / "report.md").read_text()
    assert "| bippo | 2 | 0.900" in text and "| poc | 1 | 0.900 |" in text
    assert "- poc was not asked for seed 28, which other methods ran" in text
    assert "## How `first` was run" in text and "## How `second` was run" in text


def _in_two_folders(folder: Path) -> None:
    for name in ("first", "second"):
        _report(folder / name, make_rows(HIGH))


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (lambda folder: None, ["."], "no rows.parquet under"),
        (lambda folder: write_trial(folder, make_rows(HIGH, scenario="gone")), ["."], "unknown scenario 'gone'"),
        (lambda folder: write_trial(folder, make_rows(HIGH)), [".", "--against", "."], "--against"),
        (_in_two_folders, ["first", "second", "--output", "o"], "bippo with seed 7 is in first and in second"),
        (_in_two_folders, ["first/run.json"], "around it: first"),
        (_in_two_folders, ["first/bippo-seed7/rows.parquet"], "around it: first"),
    ],
)
def test_the_command_refuses_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], object],
    arguments: list[str],
    named: str,
) -> None:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert command.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and named in line and not Path("o").exists()


def test_tables_align() -> None:
    records = [{"method": "a", "J": "1.0"}, {"method": "longer", "J": "10.0"}]
    lines = ["method      J", "------   ----", "a         1.0", "longer   10.0"]
    assert text_table(records).splitlines() == lines
    assert markdown_table(records).splitlines()[1:3] == ["| --- | ---: |", "| a | 1.0 |"]
