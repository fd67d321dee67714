"""Arguments of `bippo report` that change nothing beside others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from row_factory import make_rows, write_trial

from experiments.report import command

VALUES = {
    "--output": ["out"],
    "--against": ["other"],
    "--name": ["My own"],
    "--target": ["0.5"],
    "--methods": ["bippo"],
    "--size": ["3", "2"],
    "--band": ["none"],
    "--without": ["scores"],
}
MODES = {"--macs": [], "--collect": ["all"], "--figure": ["f.svg"]}
READ = {"--collect": ["--without"], "--figure": ["--target", "--methods", "--size", "--band"], "--macs": []}
OF_REPORT = ["--output", "--against", "--name", "--target"]


def test_every_argument_is_walked_through() -> None:
    flags = {flag for action in command.parser()._actions for flag in action.option_strings}
    assert flags - {"-h", "--help"} == VALUES.keys() | MODES.keys()


@pytest.mark.parametrize(
    ("mode", "flag"),
    [
        *((mode, flag) for mode in MODES for flag in VALUES if flag not in READ[mode]),
        *(("", flag) for flag in VALUES if flag not in OF_REPORT),
        *((first, second) for first in MODES for second in MODES if first < second),
    ],
)
def test_what_changes_nothing_is_refused(
    tmp_path: Path, mode: str, flag: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_trial(tmp_path / "study", make_rows([0.5] * 3))
    before = sorted(tmp_path.rglob("*"))
    folders = [] if "--macs" in (mode, flag) else ["study"]
    arguments = [*folders, *([mode, *MODES[mode]] if mode else []), flag, *(VALUES | MODES)[flag]]
    assert command.main(arguments) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "changes nothing with" in message and "leave it out" in message
    assert sorted(tmp_path.rglob("*")) == before


def test_macs_need_no_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["results/study", "--macs"]) == 2
    assert "RESULTS_DIR changes nothing with --macs" in capsys.readouterr().err
