"""The churn benchmark: what it compares, and one small run of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.benchmark import command as benchmark
from experiments.benchmark.churn import RoundCost, compared


def costs(cpu_ms: tuple[float, float, float], mib: tuple[float, float, float]) -> list[RoundCost]:
    """Ten rounds per third; wall time is twice the CPU's."""
    return [RoundCost(ms / 500, ms / 1000, m, 5, 1, 3) for ms, m in zip(cpu_ms, mib, strict=True) for _ in range(10)]


@pytest.mark.parametrize(
    ("cpu_ms", "mib", "failures"),
    [
        ((90.0, 10.0, 12.9), (100.0, 200.0, 209.0), []),  # the first third may be anything
        ((10.0, 10.0, 13.1), (200.0, 200.0, 200.0), ["CPU time grew 1.310x"]),
        ((10.0, 10.0, 10.0), (100.0, 200.0, 211.0), ["memory grew 1.055x"]),
        ((10.0, 20.0, 30.0), (100.0, 200.0, 300.0), ["CPU time grew 1.500x", "memory grew 1.500x"]),
    ],
)
def test_growth_from_the_second_to_the_last_third_is_told(
    cpu_ms: tuple[float, float, float], mib: tuple[float, float, float], failures: list[str]
) -> None:
    result = compared(costs(cpu_ms, mib))
    assert result["cpu_ms"] == pytest.approx(cpu_ms) and result["wall_ms"][1] == pytest.approx(2 * cpu_ms[1])
    assert [line.partition(" from")[0] for line in result["failures"]] == failures


def test_a_run_joins_leaves_and_its_exit_code_says_whether_it_grew(
    ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.json"
    arguments = ["churn", "--clients", "12", "--rounds", "30", "--null-training", "--json", str(file)]
    code = benchmark.main(arguments)
    record = json.loads(file.read_text())
    assert code == (1 if record["failures"] else 0)
    # 12 clients, of whom a tenth leaves and three tenths of the absent return: 3/4 are live in the long run.
    assert 6 < record["mean_live"] < 12 and 10 < record["joins"] < 60
    assert len(record["cpu_ms"]) == 3 and min(record["resident_mib"]) > 50
    assert "CPU ms per round" in capsys.readouterr().out


def test_too_few_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["churn", "--rounds", "29"]) == 2
    assert capsys.readouterr().err == "error: --rounds is 29; three thirds need at least 30\n"
