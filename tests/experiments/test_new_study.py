"""``bippo new``: what it writes works as it is, by its README and its tests."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import commands
from experiments.results.rows import read_rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    assert commands.main(["new", "my-study"]) == 0
    monkeypatch.chdir(tmp_path / "my-study")
    monkeypatch.syspath_prepend(str(tmp_path / "my-study"))
    assert "README.md, mine.py, test_mine.py" in capsys.readouterr().out
    yield tmp_path / "my-study"
    sys.modules.pop("mine", None)


def test_the_command_of_the_readme_runs(folder: Path, tune_here: None, blank_figures: None) -> None:
    text = (folder / "README.md").read_text("utf-8")
    assert text.startswith("# my-study\n") and "test_mine.py" in text and len(text.splitlines()) <= 12
    (command,) = re.findall(r"^    bippo (.*)$", text, re.MULTILINE)
    shorter = ["--rounds", "2", "--seeds", "7", "--results-dir", "results"]
    assert commands.main([*shlex.split(command), *shorter]) == 0
    assert read_rows("results").groupby("method")["round"].max().to_dict() == {
        "bippo-r": 2,
        "fedavg": 2,
        "mine:least_accurate": 2,
    }


@pytest.mark.slow
def test_its_tests_pass_and_its_style_is_ours(folder: Path) -> None:
    style = ["--isolated", "--line-length", "120"]
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider"],
        ["ruff", "check", *style],
        ["ruff", "format", "--check", *style],
    ):
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["envs", "there/experiments", "not/there"])
def test_a_folder_in_the_way_or_in_no_folder_is_not_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert commands.main(["new", name]) == 2
    assert name.split("/")[0] in capsys.readouterr().err and not (tmp_path / name).exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_what_it_says_to_type_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert commands.main(["new", "my study"]) == 0
    said = capsys.readouterr().out
    assert shlex.split(re.findall(r"next: (.*),", said)[0]) == ["cd", "my study"]
    assert Path(re.findall(r"more: (.*)", said)[0]).is_file()


def test_what_is_there_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.py").write_text("")
    assert commands.main(["new", "."]) == 2
    assert "not empty" in capsys.readouterr().err and (folder / "mine.py").read_text() == ""
