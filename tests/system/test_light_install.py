"""What a server that only selects has to install: docs/deploy.md names it, and nothing else is imported."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from source_tree import ROOT

from bippo_rllib.method_settings import METHOD_SETTINGS

PACKAGES = {"bippo_rllib", "envs", "experiments", "flower_nodes"}


def documented(line: str) -> list[Requirement]:
    """The requirements in quotation marks that a line of docs/deploy.md has."""
    (found,) = [text for text in (ROOT / "docs/deploy.md").read_text("utf-8").splitlines() if line in text]
    return [Requirement(text) for text in re.findall(r'"([^"]+)"', found)]


SELECTOR, FLOWER = documented('pip install "torch'), documented("For [Flower]")


def with_requirements(requirements: list[Requirement]) -> set[str]:
    """The distributions that pip would install, by what is installed here."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in found and any(metadata.distributions(name=name)):
            found.add(name)
            needed = [Requirement(text) for text in metadata.requires(name) or []]
            waiting += [need for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


def run_with_only(requirements: list[Requirement], code: str, *arguments: str | Path) -> str:
    """What the code prints in a process that can import the standard library, the requirements and this project."""
    installed = with_requirements(requirements)
    names = {
        name
        for name, owners in metadata.packages_distributions().items()
        if installed & {canonicalize_name(owner) for owner in owners}
    }
    assert {"torch", "numpy", "safetensors"} <= names and not {"ray", "pandas", "gymnasium", "scipy"} & names
    only = f"allowed = {sorted(names | PACKAGES | sys.stdlib_module_names)}\n" + ONLY
    command = [sys.executable, "-c", only + code, *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


ONLY = """
import sys

class Only:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return self.finder.find_spec(name, path, target) if name.partition(".")[0] in allowed else None

    def __getattr__(self, name):  # importlib.metadata asks finders for distributions
        return getattr(self.finder, name)

sys.meta_path[:] = map(Only, sys.meta_path)
for name in [name for name in sys.modules if name.partition(".")[0] not in {*allowed, "__main__"}]:
    del sys.modules[name]
"""


def test_what_is_documented_is_what_the_metadata_demands() -> None:
    setup = (ROOT / "setup.py").read_text("utf-8")
    assert len(SELECTOR) == 3 and all(f'"{requirement}"' in setup for requirement in [*SELECTOR, *FLOWER])


@pytest.mark.slow
def test_a_selector_of_every_method_selects_learns_and_is_saved(tmp_path: Path) -> None:
    printed = run_with_only(
        SELECTOR,
        """
from pathlib import Path

import numpy as np

from bippo_rllib import ClientReport, ClientSelector
from bippo_rllib.federated.update_profiles import update_profile
from bippo_rllib.method_settings import METHOD_SETTINGS
from experiments import commands

profile = update_profile([np.zeros((3, 2))], [np.ones((3, 2))], num_samples=6)
folder = Path(sys.argv[1])
for method in METHOD_SETTINGS:
    selector, chosen = ClientSelector.fresh(method, seed=7), []
    for accuracy in (0.3, 0.5, 0.6):
        reports = {
            client: ClientReport(
                accuracy=accuracy,
                num_samples=100,
                cost_j=1.0,
                loss=0.7,
                update_profile=profile if client in chosen else None,
            )
            for client in range(5)
        }
        chosen = selector.select(reports, 3.0)
        assert 0 < len(chosen) <= 3
        effects = dict.fromkeys(chosen, 0.01) if selector.reward.is_of_effects else None
        selector.update(chosen, None if effects else dict.fromkeys(reports, accuracy), effects=effects)
        trial = folder / method / "checkpoint_000001"
        trial.mkdir(parents=True, exist_ok=True)
        selector.save(trial / "selector.safetensors")
        selector = ClientSelector.load(folder / method)
    exported = folder / f"{method}.safetensors"
    assert commands.main(["export", str(folder / method), str(exported)]) == 0
    assert ClientSelector.load(exported).select(reports, 3.0) == selector.select(reports, 3.0)
assert commands.main(["tune"]) == 2
""",
        tmp_path,
    )
    assert len(printed.splitlines()) == len(METHOD_SETTINGS)


@pytest.mark.slow
def test_the_flower_strategy_runs_without_ray() -> None:
    run_with_only(
        [*SELECTOR, *FLOWER],
        """
sys.path.append("tests/support")
from flower_nodes import Nodes, run
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy

for name in ("run_id", "node_id", "task_id"):
    setattr(TaskIdentity, f"_{name}", 1)
nodes = Nodes()
run(BudgetedStrategy(FedAvg(), ClientSelector.fresh("bippo-s", seed=7), 3.0), nodes)
assert nodes.trained()
""",
    )
