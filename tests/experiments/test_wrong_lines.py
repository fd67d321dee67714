"""Wrong command lines as people type them: exit code 2, one line, and what the line advises works when followed."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from row_factory import make_rows, write_trial

from experiments import commands, tune_bippo

#: A wrong line, and what it is followed by: a part of its message, of which groups fill the gaps of a line that works.
FOLLOWED = [
    ("tun", r"did you mean (\w+)", "{} --list"),
    ("Tune --list", r"did you mean (\w+)", "{} --list"),
    ("--list", r"bippo (tune --list)", "{}"),
    ("tune --scenario digit", r"did you mean ([\w-]+)", "tune --scenario {}"),
    ("tune --scenario Digits", r"did you mean ([\w-]+)", "tune --scenario {}"),
    ("tune --scenario noisy", r"did you mean ([\w-]+)", "tune --scenario {}"),
    ("tune --methods bipo", r"did you mean ([\w-]+)", "tune --methods {}"),
    ("tune --methods BIPPO-R", r"did you mean ([\w-]+)", "tune --methods {}"),
    ("tune --methods FedAvg", r"did you mean ([\w-]+)", "tune --methods {}"),
    ("tune --methods bippo bippo", r"name each one once", "tune --methods bippo"),
    ("tune --methods bippo;fedavg", r"known are (\w+), (\w+)", "tune --methods {},{}"),
    ("tune --methods random", r"did you mean (\w+)", "tune --methods {}"),
    ("tune --methods ending.in_turn", r"MODULE:NAME, such as (\S+)", "tune --methods {}"),
    ("tune --methods there/ending.py:in_turn", r"such as (\S+) after `cd there`", "tune --methods {}"),
    ("tune --methods ending.py", r"such as (\w+:)NAME", "tune --methods {}in_turn"),
    ("tune --method bippo", r"did you mean (--\w+)", "tune {} bippo"),
    ("tune --seed 7", r"did you mean (--\w+)\?", "tune {} 7"),
    ("tune --seeds seven", r"such as (\d) (\d) (\d),", "tune --seeds {} {} {}"),
    ("tune --seeds 1..3", r"or (\d-)\d", "tune --seeds {}3"),
    ("tune --seeds 3-1", r"first: (\d-\d)", "tune --seeds {}"),
    ("tune --method bippo --round 5", r"mean (--\w+)\? did you mean (--\w+)\?", "tune {} bippo {} 5"),
    ("tune --seeds 7 7", r"--seeds has 7 twice", "tune --seeds 7"),
    ("tune --seeds -1", r"whole numbers from (\d)", "tune --seeds {}"),
    ("tune --rounds 0", r"at least (\d)", "tune --rounds {}"),
    ("tune --rounds=5.0", r"such as (\d)", "tune --rounds={}"),
    ("tune --data-dir there", r"leave it out, or .* (--scenario image-folder)", "tune"),
    ("tune --num-samples 4", r'such as --search "(\S+)"', "tune --search {} --num-samples 1"),
    ("tune --set lr 0.1", r"'lr' is not (key)=(value)", "tune --set lr=0.1"),
    ("tune --set lr=0,1", r"such as (lr=[\d.]+)", "tune --set {}"),
    ("tune --set learning_rate=0.1", r"did you mean (\w+)", "tune --set {}=0.1"),
    ("tune --set learning_rate=0.1", r"did you mean lr or (env\.\w+)", "tune --set {}=0.1"),
    ("tune --set Lr=0.1", r"did you mean (\w+)", "tune --set {}=0.1"),
    ("tune --set epsilon_deca=0.9", r"did you mean (\w+)", "tune --set {}=0.9"),
    ("tune --set num_clients=20", r"did you mean (\S+)\?", "tune --set {}=20"),
    ("tune --set env.clients=20", r"did you mean (\S+)\?", "tune --set {}=20"),
    ("tune --set env.learning_rate=0.1", r"did you mean (\S+)\?", "tune --set {}=0.1"),
    ("tune --set seed=3", r"use (--\w+)", "tune {} 3"),
    ("tune --set env.rounds=3", r"use (--\w+)", "tune {} 3"),
    ("tune --set sampler=random", r"use (--\w+)", "tune {} fedavg"),
    ("tune --set lr=0.1 lr=0.2", r"names lr twice", "tune --set lr=0.1"),
    ("tune --set env.budget_share=10.7", r"(0\.107)", "tune --set env.budget_share={}"),
    ("tune --set env.budget_share=10.7%", r"without unit: (\S+)", "tune --set env.budget_share={}"),
    ("tune --set env.budget_j=15mJ", r"without unit: (\S+)", "tune --set env.budget_j={}"),
    (
        "tune --set env.num_clients=2 env.cpu_freq_hz=700MHz",
        r"such as (\S+) for two",
        "tune --set env.num_clients=2 env.cpu_freq_hz={}",
    ),
    (
        "tune --set env.partition=dirichlet env.alpha=0.3",
        r"(dirichlet_over_\w+).*MODULE:NAME",
        "tune --set env.partition={} env.alpha=0.3",
    ),
    ("tune --set env.reward=shaply", r"(shapley).*MODULE:NAME", "tune --set env.reward={}"),
    ("tune --set env.reward=ending:Second", r"such as (--methods \w+ \w+)", "tune {} --set env.reward=ending:Second"),
    ("tune --set env.alpha=0.1", r"alpha .*(dirichlet_over_clients)", "tune --set env.alpha=0.1 env.partition={}"),
    ("tune --set env.partition=dirichlet", r"(dirichlet_over_labels)", "tune --set env.partition={}"),
    ("tune --set env.train_samples=2000", r"lower env\.train_samples.*This fits: (--set .*)", "tune {}"),
    ("tune --set env.num_clients=2 env.budget_share=0.1", r"This fits: (--set .*)", "tune {}"),
    ("tune --search lr=0.1", r'such as (--search) "(\S+)"', "tune {} {} --num-samples 1"),
    ("tune --search lr=logunifrm(1e-4,1e-2)", r"did you mean (\w+)", "tune --search lr={}(1e-4,1e-2) --num-samples 1"),
    ("tune --search lr=loguniform(1e-2,1e-4)", r"comes first: (\S+)", "tune --search lr={} --num-samples 1"),
    ("tune --search num_epochs=qrandint(9,2,q=1)", r"first: (\S+)", "tune --search num_epochs={} --num-samples 1"),
    ("tune --executor gpu", r"choose one of auto, (\w+)", "tune --executor {}"),
    ("tune --executor serial --num-actors 1", r"use (--executor='ray')", "tune {} --num-actors 1"),
    ("tune --num-actors 2", r"use (--executor='ray')", "tune {} --num-actors 2"),
    ("tune --cpus-per-actor 0.5", r"use (--executor='ray')", "tune {} --cpus-per-actor 0.5"),
    ("tune --gpus 0.5 --list", r"did you mean ([\w-]+)", "tune {} 0.5 --list"),
    ("tune --callbacks ending", r"such as \w+\.\w+(:)", "tune --callbacks ending{}Second"),
    ("tune --callbacks ending:Secnd", r"did you mean (\w+)", "tune --callbacks ending:{}"),
    ("tune --resume gone", r"gone is not there", "tune --results-dir gone"),
    ("tune --resume there", r"has no run\.json", "tune --results-dir new"),
    ("tune --resume studies", r"such as \S+studies/(\w+) or \S+studies/", "tune --results-dir new"),
    ("tune --results-dir there", r"(--results-dir \S+)", "tune {}"),
    ("report nowhere", r"bippo (tune --results-dir nowhere)", "{}"),
    ("report there --fig x.pdf", r"did you mean ([\w-]+)", "report there {} x.pdf"),
    ("report there --figure f.svg --size 3in 3in", r"such as ([\d.]+)", "report there --figure f.svg --size {0} {0}"),
    *(
        (f"report there --figure {name}", r"such as (\S+);", "report there --figure {}")
        for name in ("accuracy.jpg", "accuracy", "accuracy.pdf.gz")
    ),
    ("report there --size 3 3", r"without (--figure)", "report there {} f.svg --size 3 3"),
    ("report there --figure f.svg --name Mine", r"--name changes nothing", "report there --figure f.svg"),
    ("report there --target 80", r"a share of 1, from .* to (\d)", "report there --output out --target {}"),
    ("report there/bippo-seed7/rows.parquet", r"the results folder around it: (\S+)", "report {} --output out"),
]
#: No line can be derived from what these say.
REFUSED = {
    "report": "results folder",
    "export there": "out",
    "export there selector.safetensors": "no selector",
    "export nowhere selector.safetensors": "no selector at nowhere",
    "benchmark": "see --help",
    "benchmark rl --ouput x": "--output",
    "tune --resume nowhere": "nowhere",
    "tune --config nowhere.json": "nowhere.json",
    "tune --init-from nowhere": "nowhere",
    "tune --set env.dataset=math:pi": "env.dataset is 'math:pi'; it names a float",
    "tune --set env.model=math:pi": "env.model is 'math:pi'; it names a float",
    "tune --methods math:pi": "--methods is 'math:pi'; it names a float",
    "tune --data-dir ~nosuchuser/data": "user",
    "report ~nosuchuser/study": "write ./~nosuchuser/study",
    "tune --gpus-per-actor inf": "a share from 0 to 1",
    "tune --trust-code": "--resume or --config",
    "tune --force": "--resume or --config",
    "tune --logger tensorboard": "mlflow",
    "tune --scenario fashion-mnist --data-dir there": "BIPPO_DATA",
}

MODULE = """
from ray.rllib.callbacks.callbacks import RLlibCallback

from bippo_rllib import BippoConfig as in_turn


class Second(RLlibCallback):
    pass
"""


@pytest.fixture(autouse=True)
def no_study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blank_figures: None) -> Iterator[None]:
    """A folder with the rows of a trial and a module; what is asked for is checked and not run."""
    write_trial(tmp_path / "there", make_rows([0.5] * 12))
    for name in ("one", "other"):
        (tmp_path / "studies" / name).mkdir(parents=True)
        (tmp_path / "studies" / name / "run.json").touch()
    (tmp_path / "ending.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("BIPPO_DATA", raising=False)
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: [])
    monkeypatch.setattr(tune_bippo, "_print_report", lambda study: None)
    yield
    sys.modules.pop("ending", None)


def exit_code(line: str) -> int:
    try:
        return commands.main(shlex.split(line))
    except SystemExit as stopped:
        return int(stopped.code or 0)


def refusal(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a command line is refused."""
    assert exit_code(line) == 2, line
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ")
    return said


@pytest.mark.parametrize(("wrong", "advice", "right"), FOLLOWED, ids=[wrong for wrong, _, _ in FOLLOWED])
def test_what_is_advised_works(wrong: str, advice: str, right: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(wrong, capsys)
    found = re.search(advice, said)
    assert found, said
    assert exit_code(right.format(*found.groups())) == 0, (right.format(*found.groups()), capsys.readouterr().err)


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_was_found_or_is_missing_is_named(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert REFUSED[wrong] in refusal(wrong, capsys)
