"""The commands under one name, and foreign packages with the names of ours."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from source_tree import ROOT

import bippo_rllib
from experiments import commands, tune_bippo


def test_each_command_is_the_module_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main([]) == 0
    listed = capsys.readouterr().out
    for name, (home, same, _) in commands.COMMANDS.items():
        assert f"bippo {name} " in listed and f"python -m {same}\n" in f"{listed}\n"
        with monkeypatch.context() as patch, pytest.raises(SystemExit, match="0"):
            patch.setenv("COLUMNS", "80")
            commands.main([name, "--help"])
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: bippo {name} ") and max(map(len, shown.splitlines())) <= 80
        monkeypatch.setattr(importlib.import_module(home), "main", lambda argv: argv)
        assert commands.main([name, "--some", "thing"]) == ["--some", "thing"]
    known = ", ".join(commands.COMMANDS)
    assert commands.main(["tun"]) == 2
    assert capsys.readouterr().err == f"error: unknown command 'tun': did you mean tune? known are {known}\n"
    assert commands.main(["--rounds", "2"]) == 2
    assert "which command is --rounds for? tune or report" in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["--version"]) == 0
    assert capsys.readouterr().out == f"bippo-rllib {bippo_rllib.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_commands_and_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert commands.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in (*commands.COMMANDS, "--checkpoint-every", "--against"))
    assert commands.main(["completion"]) == 2


def test_completion_without_its_package_is_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert commands.main(["completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err


def test_python_dash_m_lists_the_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "experiments"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{commands.listing()}\n"


@pytest.mark.parametrize("module", ["experiments", "experiments.tune_bippo", "experiments.report"])
def test_a_foreign_package_in_the_way_is_one_line(tmp_path: Path, module: str) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode != 0 and f"finds the folder {tmp_path / 'envs'} before this project's package" in line


@pytest.mark.parametrize("name", ["envs", "experiments"])
def test_a_foreign_package_that_only_rays_workers_would_find_is_one_line(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert tune_bippo.main([]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: Python finds the folder {tmp_path / name} before this project's package {name}")


def test_a_users_own_modules_are_found_in_the_working_directory_by_either_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])  # a console script has no working directory
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_here.py").write_text("")
    assert commands.main(["tune", "--methods", "only_here:nothing", "--rounds", "1"]) == 2
    assert "only_here has no nothing" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signal_while_ray_starts_ends_the_command_and_ray(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray", dir="/tmp")}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-u", "-m", "experiments", "tune", "--results-dir", str(tmp_path / "r")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == f"{tune_bippo.LOADING}\n"
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()
        assert process.returncode == 130 and stderr == "\ninterrupted before anything was run\n"
        assert not (tmp_path / "r").exists()
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert environment["RAY_TMPDIR"] not in running
    finally:
        shutil.rmtree(environment["RAY_TMPDIR"], ignore_errors=True)
