"""Results that were committed by earlier versions: still readable, and their reports the same to the last byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from source_tree import ROOT

from experiments.report.report import build_report
from experiments.report.sections import write_report
from experiments.results.run_info import load_run_info

RESULTS = ROOT / "docs" / "results"


def test_every_record_is_read() -> None:
    records = sorted(RESULTS.rglob("run.json"))
    assert records and all(load_run_info(record).seeds for record in records)


@pytest.mark.parametrize(
    ("folder", "studies", "against"),
    [
        ("transfer-small", ["pretrained"], ["scratch"]),
        pytest.param("scalability", ["scalability-150"], [], marks=pytest.mark.slow),
        pytest.param("fashion-mnist-200", ["bippo-r-rep", "bippo", "fedavg-ppo-ippo-fppo"], [], marks=pytest.mark.slow),
    ],
)
def test_reports_are_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blank_figures: None,
    folder: str,
    studies: list[str],
    against: list[str],
) -> None:
    monkeypatch.chdir(RESULTS / folder)
    path, _ = write_report(build_report([*map(Path, studies)], [*map(Path, against)]), tmp_path)
    assert path.read_text() == Path("report.md").read_text()
