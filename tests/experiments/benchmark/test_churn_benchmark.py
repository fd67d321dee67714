"""The churn benchmark: what it compares, and one small run of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.benchmark import command as benchmark
from experiments.benchmark.churn import compare_thirds


def rounds(cpu_ms: tuple[float, float, float], mib: tuple[float, float, float]) -> list[dict[str, float]]:
    """Ten rounds per third, in the last of which one client joins."""
    joined = (0, 0, 1)
    thirds = [
        dict(zip(("CPU ms", "MiB", "joined"), third, strict=True)) for third in zip(cpu_ms, mib, joined, strict=True)
    ]
    return [third for third in thirds for _ in range(10)]


@pytest.mark.parametrize(
    ("cpu_ms", "mib", "failures"),
    [
        ((90.0, 10.0, 12.9), (100.0, 200.0, 209.0), []),  # the first third may be anything
        ((10.0, 10.0, 13.1), (200.0, 200.0, 200.0), ["CPU ms grew 1.310x"]),
        ((10.0, 10.0, 10.0), (100.0, 200.0, 211.0), ["MiB grew 1.055x"]),
        ((10.0, 20.0, 30.0), (100.0, 200.0, 300.0), ["CPU ms grew 1.500x", "MiB grew 1.500x"]),
    ],
)
def test_growth_from_the_second_to_the_last_third_is_told(
    cpu_ms: tuple[float, float, float], mib: tuple[float, float, float], failures: list[str]
) -> None:
    result = compare_thirds("heading", rounds(cpu_ms, mib))
    *thirds, growth = result.rows
    assert tuple(third["CPU ms"] for third in thirds) == cpu_ms and tuple(third["MiB"] for third in thirds) == mib
    assert (growth["CPU ms"], growth["joined"]) == (cpu_ms[2] / cpu_ms[1], None)  # no ratio to nobody
    assert [line.partition(" from")[0] for line in result.failures] == failures


def test_a_run_joins_leaves_and_its_exit_code_says_whether_it_grew(
    ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.json"
    arguments = ["churn", "--clients", "12", "--rounds", "30", "--null-training", "--json", str(file)]
    code = benchmark.main(arguments)
    record = json.loads(file.read_text())
    assert code == (1 if record["failures"] else 0)
    *thirds, _ = record["rows"]
    # 12 clients, of whom a tenth leaves and three tenths of the absent return: 3/4 are live in the long run.
    assert 6 < sum(third["live"] for third in thirds) / 3 < 12
    assert 10 < int(re.search(r"(\d+) joins", record["heading"]).group(1)) < 60
    assert min(third["MiB"] for third in thirds) > 50
    assert "CPU ms" in capsys.readouterr().out


def test_too_few_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["churn", "--rounds", "29"]) == 2
    assert capsys.readouterr().err == (
        "error: argument --rounds: 29 is too small; it must be at least 30; see --help\n"
    )
