"""A few of what ``python tests/support/fuzz_report.py`` tries by the thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_report import try_one, write_studies


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    write_studies(folder)
    return folder


@pytest.mark.parametrize("seed", range(8))
def test_odd_rows_and_records_are_left_out_or_refused_in_one_line(
    studies: Path, seed: int, blank_figures: None
) -> None:
    try_one(seed, studies)
