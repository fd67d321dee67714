"""What the site says of the code is complete and true: API, metrics, messages, commands, tutorials."""

from __future__ import annotations

import ast
import fnmatch
import inspect
import json
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT, modules

import bippo_rllib
import envs

DOCS = ROOT / "docs"
PACKAGES = ("bippo_rllib", "envs", "experiments")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


#: What is typed into the site's search, and the page that must be found.
SEARCHED = {
    "report.md": ("merge", "combine", "confidence", "significance", "PDF", "plot"),
    "slurm.md": ("Slurm", "container", "Docker"),
    "cluster.md": ("GPU", "two GPUs", "multiple machines"),
    "your-own.md": ("own method", "data", "custom", "reward"),
    "quickstart.md": ("resume", "early stopping", "seeds", "hyperparameters"),
    "settings.md": ("learning rate", "default values", "Dirichlet"),
    "metrics.md": ("Weights & Biases", "MLflow", "TensorBoard"),
    "faq.md": ("Windows",),
}


@pytest.mark.parametrize(("name", "words"), SEARCHED.items(), ids=SEARCHED)
def test_a_page_has_the_words_that_it_is_searched_by(name, words):
    text = page(name).lower()
    for word in words:
        assert word.lower() in text, word


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("package", [bippo_rllib, envs], ids=lambda package: package.__name__)
def test_every_public_name_is_on_the_api_page(package):
    for name in package.__all__:
        assert re.search(rf"^\.\. auto\w+:: (\S+\.)?{name}$", page("api.md"), re.MULTILINE), name


#: Not to be described: the last is what RLlib's configurations take.
NO_ARGUMENTS = {"self", "cls", "args", "kwargs", "algo_class"}


def public_callables() -> Iterator[tuple[str, Any]]:
    """Exported classes and functions, functions of exported modules, and methods that override nothing."""
    for package in (bippo_rllib, envs):
        for name in package.__all__:
            thing = getattr(package, name)
            if not isinstance(thing, types.ModuleType):
                yield f"{package.__name__}.{name}", thing
            overridden = {inner for base in getattr(thing, "__mro__", ())[1:] for inner in vars(base)}
            for inner, found in getattr(thing, "__dict__", {}).items():
                function = getattr(found, "__func__", found)
                ours = inspect.isfunction(function) and function.__module__.startswith(PACKAGES)
                if ours and not inner.startswith("_") and inner not in overridden:
                    yield f"{package.__name__}.{name}.{inner}", function


def arguments(thing: Any) -> set[str]:
    """Of a function, or of the constructor that a class does not inherit."""
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        return set()
    parameters = set(inspect.signature(thing).parameters) - NO_ARGUMENTS
    return {name for name in parameters if not name.startswith("_")}  # Ray gives methods of actors one of its own


def test_every_public_name_says_what_it_takes_and_raises():
    """The class may describe a method's arguments."""
    checked = list(public_callables())
    documented = {name: inspect.getdoc(thing) for name, thing in checked}
    assert len(checked) > 60
    for name, thing in checked:
        doc = documented[name]
        assert doc, f"{name} has no docstring"
        if not re.search("see ``", doc, re.IGNORECASE):
            for argument in arguments(thing):
                text = f"{doc}\n{documented.get(name.rpartition('.')[0], '')}"
                assert re.search(rf"\b{argument}\b", text), f"{name} says nothing of {argument}"
            for error in errors_raised(thing):
                assert error in doc, f"{name} says nothing of {error}"


def errors_raised(function: Any) -> set[str]:
    """Errors that a function raises in its own body."""
    if inspect.isclass(function):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return {call.func.id for call in raised if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


@pytest.mark.parametrize("method", ["bippo-r", "ppo"])
def test_every_tag_of_tensorboard_is_on_the_page(method, ray_session):
    from experiments.study.logger_tags import grouped
    from experiments.study.row_callback import TrialInfo
    from experiments.study.trial_config import bippo_config

    tags: set[str] = set()
    federation = {"num_clients": 6, "local_epochs": 1, "budget_share": 0.6}
    algo = bippo_config(TrialInfo("digits", method, 7), federation, {}, rounds=3).build_algo()
    for _ in range(3):
        tags |= grouped(algo.train()).keys()
    known = re.findall(r"`([^`\s]+)`", "".join(re.findall(r"^\| (.*?) \|", page("metrics.md"), re.MULTILINE)))
    assert len(tags) > 40
    assert not [tag for tag in tags if not any(fnmatch.fnmatchcase(tag, pattern) for pattern in known)]


def test_messages_in_the_faq_are_those_of_the_code():
    said = "\n".join(text for package in PACKAGES for path in modules(package).values() for text in texts_in(path))
    messages = re.findall(r"^### `(.+)`$", page("faq.md"), re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        assert re.search(".*".join(map(re.escape, message.split("…"))), said), message


def texts_in(path: Path) -> Iterator[str]:
    """Every text of a file in one line, its fields as …"""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
        if all(isinstance(text, str) for text in texts):
            yield " ".join("".join(texts).split())


def test_every_command_is_on_the_page():
    from experiments.commands import COMMANDS

    assert len(COMMANDS) >= 3
    for name, (_, module, _) in COMMANDS.items():
        assert f"\n## bippo {name}\n" in page("commands.md") and f"python -m {module}" in page("commands.md")


def test_cells_of_the_notebook_print_what_stands_below_them(ray_session, capsys):
    """Up to what accuracies differ by between processors."""
    cells = [cell for cell in json.loads(page("first-selection.ipynb"))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
        expected = "".join(line for output in cell["outputs"] for line in output["text"])
        printed, number = capsys.readouterr().out, r"\d+(?:\.\d+)?"
        assert re.sub(number, "0", printed) == re.sub(number, "0", expected)
        found = [list(map(float, re.findall(number, text))) for text in (printed, expected)]
        assert found[0] == pytest.approx(found[1], rel=0.2, abs=0.1)


def test_the_example_of_the_energy_model_prints_what_stands_below_it(capsys):
    text = page("energy-model.md")
    exec(python_blocks(text)[0], {})
    assert f"```text\n{capsys.readouterr().out}```" in text


def test_the_folder_of_images_can_be_studied(tmp_path, monkeypatch):
    from experiments.study.arguments import parser, study_of
    from experiments.study.checks import check_study

    text = page("your-images.md")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    exec(python_blocks(text)[0], {})
    assert {path.parent.parent.name for path in Path("photos").glob("*/*/*.png")} == {"train", "test"}
    command = re.findall(r"bippo tune (.*)", text)[-1]
    check_study(study_of(parser().parse_args(command.split()), []))
