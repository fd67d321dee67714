"""The report: the table's words, what is named as missing, and the paper's numbers beside ours."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from row_factory import make_rows, write_trial

from experiments import report
from experiments.provenance import RunInfo, add_warmup_energy, read_run_info, write_run_info
from experiments.report import build_report, paper_records, write_report
from experiments.tables import markdown_table, text_table

INFO = RunInfo(
    scenario="digits",
    target_accuracy=0.8,
    rounds=12,
    federation={"dataset": "digits"},
    methods=["fedavg", "bippo"],
    seeds=[7, 28],
    command="python -m experiments.tune_bippo",
)
HIGH, LOW = [0.9] * 12, [0.5] * 12


def test_table_golden(tmp_path: Path) -> None:
    # bippo: 0.9 twice, reached at round 10 both times. fedavg: 0.5 never, then 0.9 at 10: 0.700 +- 0.200, 1 of 2.
    # Every round spends 2 J of 2 J, 12 rounds 24 J.
    for method, seed, accuracy in (("bippo", 7, HIGH), ("bippo", 28, HIGH), ("fedavg", 7, LOW), ("fedavg", 28, HIGH)):
        write_trial(tmp_path, make_rows(accuracy, method, seed))
    fedavg, bippo = _with_info(tmp_path).records
    assert dict(bippo) == {
        "method": "bippo",
        "seeds": "2",
        "mean accuracy": "0.900 ± 0.000",
        "rounds to 80 %": "10.0 ± 0.0",
        "J/round": "2.000 ± 0.000",
        "of budget": "100.0 %",
        "J in all": "24.00 ± 0.00",
    }
    assert (fedavg["mean accuracy"], fedavg["rounds to 80 %"]) == ("0.700 ± 0.200", "10.0 (reached 1 of 2)")


def test_one_seed_has_no_spread_and_a_missed_target_says_so(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(LOW))
    (record,) = build_report(tmp_path).records
    assert (record["mean accuracy"], record["rounds to 80 %"]) == ("0.500", "reached 0 of 1")


def test_joules_keep_four_significant_digits(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(LOW, energy_j=0.01337123, budget_j=0.015))
    (record,) = build_report(tmp_path).records
    assert (record["J/round"], record["of budget"], record["J in all"]) == ("0.01337", "89.1 %", "0.1605")


def test_late_accuracy_is_a_column_only_of_long_studies(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows([0.5] * 100 + [0.9]))
    write_trial(tmp_path, make_rows([0.5] * 100, "fedavg"))
    bippo, fedavg = build_report(tmp_path).records
    assert (bippo["accuracy > round 100"], fedavg["accuracy > round 100"]) == ("0.900", "–")
    assert (bippo["rounds"], fedavg["rounds"]) == ("101", "100")


def test_every_method_that_ran_less_than_asked_is_named(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(HIGH, "bippo", 7))
    write_trial(tmp_path, make_rows(HIGH[:5], "bippo", 28))
    write_trial(tmp_path, make_rows(HIGH, "fedavg", 28))
    expected = ["fedavg with seed 7 has no rows", "bippo with seed 28 has 5 of 12 rounds"]
    found = _with_info(tmp_path)
    assert found.shortfalls == expected
    assert "note: fedavg with seed 7 has no rows" in found.text()
    path, _ = write_report(found, tmp_path)
    assert "## Less than asked for\n\n- fedavg with seed 7" in path.read_text()


def test_without_run_info_the_longest_trial_and_all_seeds_are_what_was_asked_for(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(HIGH, "bippo", 7))
    write_trial(tmp_path, make_rows(HIGH[:5], "fedavg", 28))
    assert build_report(tmp_path).shortfalls == [
        "bippo with seed 28 has no rows",
        "fedavg with seed 7 has no rows",
        "fedavg with seed 28 has 5 of 12 rounds",
    ]


def test_a_search_lists_settings_by_length_then_accuracy(tmp_path: Path) -> None:
    settings = {"lr=0.1": [0.99] * 4, "lr=0.01": [0.6] * 12, "lr=0.001": HIGH}
    for setting, accuracy in settings.items():
        write_trial(tmp_path, make_rows(accuracy, setting=setting))
    search = dataclasses.replace(
        INFO, methods=["bippo"], seeds=[7], search={"lr": "loguniform(1e-4,1e-1)"}, num_samples=4
    )
    found = _with_info(tmp_path, search)
    assert [summary.setting for summary in found.summaries] == ["lr=0.001", "lr=0.01", "lr=0.1"]
    assert found.shortfalls == [
        "bippo: 1 of 3 trials ended before round 12 (ASHA stops what falls behind)",
        "bippo: 3 of 4 trials have rows",
    ]


def test_report_file_holds_table_figure_definitions_and_provenance(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(HIGH))
    write_run_info(tmp_path, INFO)
    add_warmup_energy(tmp_path, {"bippo-seed7": 1.5, "bippo-seed28": 2.5})
    path, png = write_report(build_report(tmp_path), tmp_path)
    text = path.read_text()
    assert (
        "| bippo | 1 | 0.900 |" in text
        and f"({png.name})" in text
        and png.exists()
        and png.with_suffix(".svg").exists()
    )
    assert "`python -m experiments.tune_bippo`" in text and "2 J per trial" in text
    assert "Beside the paper" not in text


def test_paper_figures_stand_beside_ours(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(HIGH, scenario="fashion-mnist"))
    write_trial(tmp_path, make_rows(HIGH, "unheard-of", scenario="fashion-mnist"))
    found = build_report(tmp_path)
    (record,) = paper_records(found.summaries, "fashion-mnist")
    assert record["paper: rounds to target"] == "43.0 ± 10.4"
    assert record["paper: mean accuracy (std)"] == "0.779 (0.140)"
    assert record["mean accuracy (std over rounds and seeds)"] == "0.900 (0.000)"
    path, _ = write_report(found, tmp_path)
    assert "The paper's figures are over 200 rounds; here 12 were run." in path.read_text()


def test_run_info_comes_back_and_a_broken_one_is_none(tmp_path: Path) -> None:
    assert read_run_info(tmp_path) is None
    write_run_info(tmp_path, INFO)
    assert read_run_info(tmp_path) == INFO
    (tmp_path / "run.json").write_text("{")
    assert read_run_info(tmp_path) is None


def test_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trial(tmp_path, make_rows(HIGH))
    assert report.main([str(tmp_path)]) == 0
    assert "bippo        1           0.900             10.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "no rows.parquet under"),
        (lambda folder: write_trial(folder, make_rows(HIGH, scenario="gone")), "unknown scenario 'gone'"),
    ],
)
def test_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], make, message: str) -> None:
    make(tmp_path)
    assert report.main([str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line


def test_tables_align() -> None:
    records = [{"method": "a", "J": "1.0"}, {"method": "longer", "J": "10.0"}]
    assert text_table(records).splitlines() == [
        "method      J",
        "------   ----",
        "a         1.0",
        "longer   10.0",
    ]
    assert markdown_table(records).splitlines()[1:3] == ["| --- | ---: |", "| a | 1.0 |"]


def _with_info(folder: Path, info: RunInfo = INFO) -> report.Report:
    write_run_info(folder, info)
    return build_report(folder)
