"""Odd rows and records give a report or one line, never another exception, a hang or gigabytes.

``FUZZ=2000 python -m pytest -n0 tests/experiments/report/test_report_fuzz.py`` tries many.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fuzz_report import damaged_study, write_studies

from experiments.report import command


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    write_studies(folder)
    return folder


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ", "8"))))
def test_odd_rows_and_records_are_left_out_or_refused_in_one_line(
    studies: Path, seed: int, blank_figures: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, started = damaged_study(seed, studies), time.monotonic()
    code = command.main([str(folder)])
    lines = capsys.readouterr().err.splitlines()
    assert time.monotonic() - started < 60
    assert code == (2 if any(line.startswith("error: ") for line in lines) else 0)
    assert all(line.startswith(("warning: ", "error: ")) and line.isprintable() for line in lines)
