"""``bippo new FOLDER``: a folder with a method, a model and data to start a study of your own from."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from experiments.argument_types import named_path
from experiments.cli import Parser, exit_code
from experiments.results.files import check_writable
from experiments.shadowed_packages import OURS

_TEMPLATES = "templates/study"
#: So that neither Python nor pytest takes them for modules of this project.
_SUFFIX = ".txt"


def parser() -> Parser:
    """Returns the parser of the command."""
    result = Parser(
        prog="bippo new", description="Writes a folder with a method, a model and data of your own to start from."
    )
    result.add_argument(
        "folder", type=named_path, metavar="FOLDER", help="such as my-study; it is made, the folder around it is not"
    )
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code (0, 2 bad input)."""
    return exit_code(partial(_main, argv))


def _main(argv: Sequence[str] | None) -> int:
    folder: Path = parser().parse_args(argv).folder
    _check(folder)
    folder.mkdir(exist_ok=True)
    templates = [each for each in resources.files("experiments").joinpath(_TEMPLATES).iterdir() if each.is_file()]
    for template in templates:
        text = template.read_text("utf-8").replace("# NAME", f"# {folder.resolve().name}")
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text, "utf-8")
    written = sorted(template.name.removesuffix(_SUFFIX) for template in templates)
    print(f"{folder}: {', '.join(written)}\nnext: {shlex.join(['cd', str(folder)])}, and the command in README.md")
    if (page := Path(__file__).resolve().parents[1] / "docs" / "your-own.md").exists():
        print(f"more: {page}")
    return 0


def _check(folder: Path) -> None:
    """Refuses a folder that cannot be written, is not empty, or would hide a package of this project."""
    check_writable(folder, "folder")
    if not folder.resolve().parent.is_dir():
        raise ValueError(f"there is no folder {folder.parent} to make {folder.name} in; make it first, or name another")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there already and not empty; name another folder")
    if folder.resolve().name in OURS:
        raise ValueError(f"{folder} would hide this project's package of that name from Python; name another folder")


if __name__ == "__main__":
    sys.exit(main())
