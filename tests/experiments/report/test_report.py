"""The report: the table's words, what is named as missing, and the paper's numbers beside ours."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from row_factory import make_rows, write_trial

from experiments.methods import METHODS
from experiments.report import command
from experiments.report.report import Report, build_report
from experiments.report.sections import write_report
from experiments.report.tables import markdown_table, text_table
from experiments.results.checkpoints import write_manifest
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, add_warmup_energy, load_run_info, read_run_info, write_run_info
from experiments.results.selector_network import SelectorNetwork
from experiments.study.asha_journal import JOURNAL_FILE, Decision, append_decision

INFO = RunInfo(
    scenario="digits",
    target_accuracy=0.8,
    rounds=12,
    federation={"dataset": "digits"},
    methods=["fedavg", "bippo"],
    seeds=[7, 28],
    command="bippo tune",
)
CLIENTS = [ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)]
RESOLVED = FederationRecord(
    classes=["zero", "one"],
    local_epochs=5,
    model=ModelRecord("cnn", 10, 100),
    clients=CLIENTS,
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
        "% of budget": "100.0",
        "total J": "24.00 ± 0.00",
    }
    assert (fedavg["mean accuracy"], fedavg["rounds to 80 %"]) == ("0.700 ± 0.200", "10.0 (reached 1 of 2)")


def test_a_reference_comes_last_with_a_note(tmp_path: Path, blank_figures: None) -> None:
    for method in ("oracle", "bippo"):
        write_trial(tmp_path, make_rows(HIGH, method))
    found = _with_info(tmp_path, dataclasses.replace(INFO, methods=["oracle", "bippo"], seeds=[7]))
    assert [record["method"] for record in found.records] == ["bippo", "(oracle)"]
    note = f"(oracle): {METHODS['oracle'].description}; it shows how much there is to win"
    assert f"note: {note}" in found.text() and note in write_report(found, tmp_path)[0].read_text()


def test_one_seed_has_no_spread_and_a_missed_target_says_so(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(LOW))
    (record,) = build_report(tmp_path).records
    assert (record["mean accuracy"], record["rounds to 80 %"]) == ("0.500", "reached 0 of 1")


def test_energies_keep_four_significant_digits_in_one_unit_a_column(tmp_path: Path) -> None:
    # 12 rounds of 0.1 J are 1.2 J in all, so that the totals of both are in joules.
    write_trial(tmp_path, make_rows(LOW, energy_j=0.01337123, budget_j=0.015))
    write_trial(tmp_path, make_rows(LOW, "fedavg", energy_j=0.1, budget_j=0.2))
    bippo, fedavg = build_report(tmp_path).records
    assert (bippo["mJ/round"], bippo["% of budget"], bippo["total J"]) == ("13.37", "89.1", "0.1605")
    assert (fedavg["mJ/round"], fedavg["total J"]) == ("100.0", "1.200")


def test_late_accuracy_is_a_column_only_of_long_studies(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows([0.5] * 100 + [0.9]))
    write_trial(tmp_path, make_rows([0.5] * 100, "fedavg"))
    bippo, fedavg = build_report(tmp_path).records
    assert (bippo["accuracy > round 100"], fedavg["accuracy > round 100"]) == ("0.900", "–")
    assert (bippo["rounds"], fedavg["rounds"]) == ("101", "100")


def test_every_method_that_ran_less_than_asked_is_named(tmp_path: Path, blank_figures: None) -> None:
    write_trial(tmp_path, make_rows(HIGH, "bippo", 7))
    write_trial(tmp_path, make_rows(HIGH[:5], "bippo", 28))
    write_trial(tmp_path, make_rows(HIGH, "fedavg", 28))
    expected = ["fedavg with seed 7 has no rows", "bippo with seed 28 has 5 of 12 rounds"]
    found = _with_info(tmp_path)
    assert found.shortfalls == expected
    assert "note: fedavg with seed 7 has no rows" in found.text()
    path, _ = write_report(found, tmp_path)
    assert "## Missing or incomplete\n\n- fedavg with seed 7" in path.read_text()


@pytest.mark.parametrize("search", [{}, {"search": {"lr": "loguniform(1e-4,1e-1)"}, "num_samples": 1}])
def test_a_trial_that_all_clients_left_has_all_rounds_there_can_be(tmp_path: Path, search: dict[str, Any]) -> None:
    for seed in (7, 28):
        write_trial(tmp_path, make_rows(HIGH[:5], "bippo", seed))
    checkpoint = tmp_path / "bippo-seed7" / "checkpoint_000000"
    checkpoint.mkdir()
    write_manifest(checkpoint, 5, over=True)
    found = _with_info(tmp_path, dataclasses.replace(INFO, methods=["bippo"], **search))
    assert found.shortfalls == (
        ["bippo: 1 of 2 trials have not finished (resume them with --resume)"]
        if search
        else [
            "bippo with seed 7 has 5 of 12 rounds, after which no client was left",
            "bippo with seed 28 has 5 of 12 rounds",
        ]
    )


def test_trainings_that_failed_are_named(tmp_path: Path) -> None:
    rows = make_rows(HIGH)
    rows[2]["failed"], rows[5]["failed"] = [1, 0], [1]
    write_trial(tmp_path, rows)
    assert build_report(tmp_path).shortfalls == ["bippo-seed7: training failed in 2 rounds, of clients 0, 1"]


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
    write_trial(tmp_path, make_rows(HIGH[:3], setting="lr=0.2"))
    append_decision(tmp_path / JOURNAL_FILE, Decision("bippo-seed7-lr=0.1", "bippo", 7, 4, 0.99, stop=True))
    search = dataclasses.replace(
        INFO, methods=["bippo"], seeds=[7], search={"lr": "loguniform(1e-4,1e-1)"}, num_samples=5
    )
    found = _with_info(tmp_path, search)
    assert [summary.setting for summary in found.summaries] == ["lr=0.001", "lr=0.01", "lr=0.1", "lr=0.2"]
    assert found.shortfalls == [
        "bippo: ASHA stopped 1 of 4 trials before round 12",
        "bippo: 1 of 4 trials have not finished (resume them with --resume)",
        "bippo: 4 of 5 trials have rows",
    ]


def test_a_method_of_a_search_that_never_began_is_named(tmp_path: Path) -> None:
    for n in range(3):
        write_trial(tmp_path, make_rows(HIGH, setting=f"lr=0.{n + 1}"))
    search = {"search": {"lr": "loguniform(1e-4,1e-1)"}, "num_samples": 3}
    found = _with_info(tmp_path, dataclasses.replace(INFO, methods=["ippo", "bippo"], seeds=[7], **search))
    assert found.shortfalls == ["ippo: 0 of 3 trials have rows"]


def test_report_file_holds_table_figure_definitions_and_provenance(tmp_path: Path, blank_figures: None) -> None:
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
    assert "`bippo tune`" in text and "2 J per trial" in text
    assert "Compared with the paper" not in text


def test_paper_figures_stand_beside_ours(tmp_path: Path, blank_figures: None) -> None:
    write_trial(tmp_path, make_rows(HIGH, scenario="fashion-mnist"))
    write_trial(tmp_path, make_rows(HIGH, "unheard-of", scenario="fashion-mnist"))
    path, _ = write_report(build_report(tmp_path), tmp_path)
    text = path.read_text()
    assert "## Compared with the paper (section 5.2)" in text
    assert "| rounds to target, mean: paper | <u>43.0</u> | **41.75** | 66.75 |" in text
    assert "The paper's figures are over 200 rounds and 3 to 4 seeds; here 12 rounds were run." in text


def test_every_section_has_its_figure_and_the_same_rows_the_same_bytes(tmp_path: Path, blank_figures: None) -> None:
    for method, seed in (("bippo", 7), ("bippo", 28), ("fedavg", 7), ("fedavg", 28)):
        write_trial(tmp_path, make_rows(HIGH, method, seed))
    networks = {"bippo": [SelectorNetwork(central=False, epochs=8, hidden_size=128, critic=True)], "fedavg": [None]}
    write_run_info(tmp_path, dataclasses.replace(INFO, federation_record=RESOLVED, networks=networks))
    path, _ = write_report(build_report(tmp_path), tmp_path)
    text = path.read_text()
    figures = re.findall(r"!\[[^]]+\]\((\w+)\.png\)", text)
    assert figures == ["accuracy", "energy", "selection"]
    assert all((tmp_path / f"{name}.{kind}").exists() for name in figures for kind in ("png", "svg"))
    assert (
        "| ippo |" not in text and "| fedavg − bippo | 7, 28 | 1–12 | 0.000 ± 0.000 [0.000, 0.000] | 0 of 2 |" in text
    )
    # Both seeds: 0.9 in all rounds.
    assert "| method | 1–10 | 11–12 |" in text
    assert "| bippo | 0.900 ± 0.000 | 0.900 ± 0.000 |" in text
    assert "| 0 | 50 | 700 | 1 J | 2 | zero: 30, one: 20 |" in text
    # Client 1, with one label, trains alone in every round.
    assert "| bippo | 1.00 | 1.0 | 0 % | 100 % | 0 % |" in text
    # RL: 1 sample x 8 epochs x 3 x 1,664; FL: 40 samples x 5 epochs x 3 x 100 = 60,000.
    assert "| bippo | 1.00 | 1,664 | 39,936 | 6.0·10⁴ | 1 : 2 |" in text
    assert "| fedavg | 1.00 | – | – | 6.0·10⁴ | – |" in text
    again, _ = write_report(build_report(tmp_path), tmp_path / "again")
    assert again.read_bytes() == path.read_bytes()


def test_energy_of_probing_is_named_where_it_was_charged(tmp_path: Path, blank_figures: None) -> None:
    # 0.5 J of 2 J in every round; bippo was not charged.
    write_trial(tmp_path, make_rows(HIGH))
    path, _ = write_report(build_report(tmp_path), tmp_path)
    assert "Part of the energy" not in path.read_text()
    write_trial(tmp_path, make_rows(HIGH, "poc", probing_j=0.5))
    path, _ = write_report(build_report(tmp_path), tmp_path)
    assert "Part of the energy that was spent on probing: poc 25.0 %." in path.read_text()


def test_a_study_may_have_a_name_and_another_target(tmp_path: Path, blank_figures: None) -> None:
    write_trial(tmp_path, make_rows([0.5] * 10 + [0.7] * 10))
    assert command.main([str(tmp_path), "--name", "My own", "--target", "0.7"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# My own: ") and "rounds to 70 %" in text and "| bippo | 1 | 0.600 | 20.0 |" in text


def test_custom_data_is_not_called_by_the_scenario(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows(HIGH))
    assert _with_info(tmp_path).heading.startswith("digits: ")
    custom = dataclasses.replace(INFO, federation={"dataset": "mine:load"})
    assert _with_info(tmp_path, custom).heading.startswith("mine:load: ")


@pytest.mark.parametrize("file", ["run.json", "bippo-seed7/rows.parquet"])
def test_a_file_of_a_study_names_the_folder(tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_trial(tmp_path / "study", make_rows(HIGH))
    write_run_info(tmp_path / "study", INFO)
    assert command.main([str(tmp_path / "study" / file)]) == 2
    assert capsys.readouterr().err.rstrip().endswith(f" {tmp_path / 'study'}")


def test_churn_is_in_the_heading(tmp_path: Path) -> None:
    trial = make_rows(HIGH)
    for row in trial[6:]:
        row["clients"] = [1]
    write_trial(tmp_path, trial)
    assert build_report(tmp_path).heading == "digits: 2 clients, 12 rounds, seed 7; 1 client leaves after round 6"


def test_one_client_and_one_round_are_singular(tmp_path: Path, blank_figures: None) -> None:
    alone = {"num_clients": 1, "clients": [0], "trained": [0], "costs_j": [2.0], "scenario": "fashion-mnist"}
    write_trial(tmp_path, make_rows([0.5], **alone))
    record = dataclasses.replace(RESOLVED, clients=CLIENTS[:1])
    info = dataclasses.replace(INFO, federation={}, scenario="fashion-mnist", federation_record=record)
    write_run_info(tmp_path, info)
    path, _ = write_report(build_report(tmp_path), tmp_path)
    text = path.read_text()
    assert text.startswith("# fashion-mnist: 1 client, 1 round, seed 7\n") and "here 1 round was run" in text
    assert "2 labels (1 client)" in text


def test_several_folders_make_one_report(
    tmp_path: Path, blank_figures: None, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, output = tmp_path / "first", tmp_path / "second", tmp_path / "both"
    for folder, method, seeds in ((first, "bippo", [7, 28]), (second, "poc", [7])):
        for seed in seeds:
            write_trial(folder, make_rows(HIGH, method, seed))
        write_run_info(folder, dataclasses.replace(INFO, methods=[method], seeds=seeds))
    assert command.main([str(first), str(second)]) == 2
    assert "--output" in capsys.readouterr().err
    assert command.main([str(first), str(second), "--output", str(output)]) == 0
    text = (output / "report.md").read_text()
    assert "| bippo | 2 | 0.900" in text and "| poc | 1 | 0.900 |" in text
    assert "- poc was not asked for seed 28, which other methods ran" in text
    assert "## How `first` was run" in text and "## How `second` was run" in text


def test_folders_that_do_not_belong_together_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        write_trial(tmp_path / name, make_rows(HIGH))
        write_run_info(tmp_path / name, INFO)
    assert command.main([str(tmp_path / "first"), str(tmp_path / "second"), "--output", str(tmp_path / "o")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: bippo with seed 7 is in ") and not (tmp_path / "o").exists()


def test_against_needs_churn_or_pretraining(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trial(tmp_path, make_rows(HIGH))
    assert command.main([str(tmp_path), "--against", str(tmp_path)]) == 2
    assert "--against" in capsys.readouterr().err


@pytest.mark.parametrize("resolved", [None, RESOLVED])
def test_run_info_comes_back(tmp_path: Path, resolved: FederationRecord | None) -> None:
    info = dataclasses.replace(INFO, federation_record=resolved, init_from="checkpoint")
    assert read_run_info(tmp_path) is None
    write_run_info(tmp_path, info)
    assert read_run_info(tmp_path) == info


RECORD = dataclasses.asdict(dataclasses.replace(INFO, federation_record=RESOLVED))
CLIENT = RECORD["federation_record"]["clients"][1]


def _with_client(**changes: Any) -> dict[str, Any]:
    clients = [RECORD["federation_record"]["clients"][0], {**CLIENT, **changes}]
    return {"federation_record": {**RECORD["federation_record"], "clients": clients}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rounds": "four"}, "rounds is 'four', expected a valid integer"),
        ({"rounds": 10**400}, "rounds is 1000"),
        ({"rounds": True}, "rounds is True, expected a valid integer"),
        ({"target_accuracy": math.nan}, "target_accuracy is nan, expected less than or equal to 1"),
        ({"seeds": [7, -1]}, "seeds.1 is -1, expected greater than or equal to 0"),
        ({"seeds": [7, 7]}, "seeds names one of them twice"),
        ({"methods": []}, r"methods is \[\], Value should have at least 1 item"),
        ({"methods": "bippo"}, "methods is 'bippo', expected a valid array"),
        (
            {"warmup_energy_j": {"bippo-seed7": math.inf}},
            "warmup_energy_j.bippo-seed7 is inf, expected a finite number",
        ),
        ({"own_methods": {"other": "m:f"}}, "own_methods has other, which is none of its methods"),
        (_with_client(client=7), "client 7 stands in the place of client 1"),
        (_with_client(labels={"2": 1}), "client 1 holds label '2', but there are 2 classes"),
        (_with_client(cost_j=-1.0), r"federation_record.clients.1.cost_j is -1.0, expected"),
        (_with_client(cpu_freq_hz=0.0), r"cpu_freq_hz is 0.0, expected greater than 0"),
        ({"federation_record": {**RECORD["federation_record"], "noisy_clients": [2]}}, r"noisy_clients are \[2\]"),
    ],
)
def test_every_number_of_a_record_has_its_range(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**RECORD, **changes}))
    with pytest.raises(ValueError, match=f"run.json is no record of a study: .*{said}") as error:
        load_run_info(path)
    assert len(str(error.value).splitlines()) == 1 and read_run_info(path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"null", b"\xff", b"[" * 100_000, b'{"scenario": "digits"}'])
def test_what_is_no_record_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.json is no record of a study: ") as error:
        load_run_info(tmp_path)
    assert len(str(error.value).splitlines()) == 1 and len(str(error.value)) < 1000


def test_a_record_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(ValueError, match="is no file"):
        load_run_info(tmp_path)


def test_a_command_of_odd_bytes_does_not_spoil_the_record(tmp_path: Path) -> None:
    write_run_info(tmp_path, dataclasses.replace(INFO, command="--results-dir st\udcfcdie grün"))
    assert load_run_info(tmp_path).command == "--results-dir st?die grün"


def test_command_prints_the_table(tmp_path: Path, blank_figures: None, capsys: pytest.CaptureFixture[str]) -> None:
    write_trial(tmp_path, make_rows(HIGH))
    assert command.main([str(tmp_path)]) == 0
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
    assert command.main([str(tmp_path)]) == 2
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


def _with_info(folder: Path, info: RunInfo = INFO) -> Report:
    write_run_info(folder, info)
    return build_report(folder)
