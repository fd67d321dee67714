"""Examples in the docs run as printed, and generated pages are up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_of_another_project_runs_in_a_folder_of_its_own(ray_address, tmp_path):
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


def test_links_between_pages_lead_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    assert len(pages) >= 5
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


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
