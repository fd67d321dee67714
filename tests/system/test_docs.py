"""Examples in the docs run as printed, what pages name is there, and generated pages are up to date."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from source_tree import ROOT, modules

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
def test_the_example_of_another_project_runs_in_a_folder_of_its_own(ray_address, tmp_path):
    """Beside a foreign package called ``envs``."""
    page = (ROOT / "docs" / "using-bippo-elsewhere.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    printed = re.search(r"```\n(would report now: .*)\n```", page).group(1)
    (tmp_path / "sensors.py").write_text(code, encoding="utf-8")
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("raise ImportError('not the envs you are looking for')\n")
    result = subprocess.run(
        [sys.executable, "sensors.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().splitlines()[-1] == printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_files_names_and_commands_of_a_page_are_there(page):
    text = read(page)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert "://" in target or (page.parent / target).exists(), target
    for path in re.findall(r"(?<![\w/.])(?:bippo_rllib|envs|experiments|tests|docs|\.ci)/[\w./*-]*", text):
        assert list(ROOT.glob(path.rstrip("."))), path
    for name in re.findall(r"(?<![\w/.-])((?:bippo_rllib|envs|experiments)(?:\.[A-Za-z_]\w*)+)(?!\.?\w)", text):
        assert name.endswith(".md") or is_there(name), name
    for name in re.findall(r"python -m ((?:bippo_rllib|envs|experiments)[\w.]*)", text):
        known = modules(name.partition(".")[0])
        assert f"{name}.__main__" in known or '__name__ == "__main__"' in known[name].read_text(), name


def test_every_room_is_on_the_map():
    rooms = {
        path.parent for package in ("bippo_rllib", "envs", "experiments") for path in (ROOT / package).glob("*/*.py")
    }
    page = read(ROOT / "CONTRIBUTING.md")
    assert len(rooms) >= 10
    for room in rooms:
        assert f"| `{room.relative_to(ROOT)}/`" in page


def read(page):
    """Its text, without commands of an older commit."""
    return re.sub(r"at commit \w+, where the command was\s+`[^`]*`", "", page.read_text(encoding="utf-8"))


def is_there(name):
    """A module, or an attribute of one, or of that."""
    parts, known = name.split("."), modules(name.partition(".")[0])
    length = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known)
    found = importlib.import_module(".".join(parts[:length]))
    for part in parts[length:]:
        found = getattr(found, part, None)
    return found is not None


def test_the_example_of_the_environment_runs(capsys):
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), {})
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, 21))


def test_generated_pages_are_up_to_date():
    sys.path.insert(0, str(ROOT / "docs"))
    import generate

    for name, make in generate.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == make(), "run: python docs/generate.py"


def test_every_example_is_in_the_gallery():
    folder, page = ROOT / "docs" / "examples", read(ROOT / "docs" / "gallery.md")
    scripts = [path for path in folder.iterdir() if path.suffix in (".py", ".sh")]
    apps = [path.parent for path in folder.glob("*/pyproject.toml")]
    assert len(scripts) >= 6 and len(apps) >= 2
    assert [path.name for path in (*scripts, *apps) if f"](examples/{path.name}" not in page] == []


@pytest.mark.slow
def test_methods_are_compared_over_the_federations_on_which_each_was_run(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    compare = importlib.import_module("compare_federations")
    right, wrong = (f"docs/results/{name}" for name in ("digits/digits-150", "digits-noisy/digits-noisy-150"))
    table = compare.gains({"right": [ROOT / right], "wrong": [ROOT / wrong]}, "fedavg")
    # The page has .907 and .867 for bippo-r, .834 and .609 for fedavg.
    np.testing.assert_allclose(table.loc["bippo-r"], [0.907 - 0.834, 0.867 - 0.609], atol=0.001)
    assert (table.loc["fedavg"] == 0).all() and table.mean(axis=1).is_monotonic_decreasing
    file = tmp_path / "gains.png"
    monkeypatch.setattr("sys.argv", ["compare", str(file), f"right={ROOT / right}", f"{ROOT / wrong}"])
    compare.main()
    assert file.stat().st_size > 1000
    for arguments, message in (
        ([str(file), f"{ROOT / right}", "--baseline", "cyclic"], "cyclic was not run on every federation; bippo"),
        ([str(file), f"{ROOT / right}-nowhere"], "-nowhere"),
        ([str(tmp_path / "gains.xyz"), f"{ROOT / right}"], "'xyz' is not supported"),
        ([str(tmp_path / "nowhere" / "gains.png"), f"{ROOT / right}"], "nowhere"),
    ):
        monkeypatch.setattr("sys.argv", ["compare", *arguments])
        with pytest.raises(SystemExit):
            compare.main()
        assert message in capsys.readouterr().err.splitlines()[-1]
