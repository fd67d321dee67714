"""Who may import whom, and what works without Ray."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

RAY_FREE = [
    "bippo_rllib",
    "bippo_rllib.central.update",
    "bippo_rllib.policies.client_selector",
    "bippo_rllib.policies.macs",
    "bippo_rllib.learning.objectives",
    "bippo_rllib.learning.participation_buffer",
    "bippo_rllib.selection.sampler",
    "bippo_rllib.policies.saved_policies",
    "bippo_rllib.policies.actor_critic",
    "bippo_rllib.learning.adam",
    "bippo_rllib.learning.ppo_update",
    "envs",
    "envs.federated_rounds",
]

BLOCK_RAY = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise ImportError("ray is blocked")
sys.meta_path.insert(0, Blocked())
"""


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("bippo_rllib", {"envs", "experiments"}), ("envs", {"bippo_rllib", "experiments"})],
)
def test_arrows_between_packages_point_one_way(package, forbidden):
    files = sorted((ROOT / package).glob("**/*.py"))
    assert len(files) > 5
    for path in files:
        assert not imported_packages(path) & forbidden, path


def test_one_file_of_envs_knows_ray():
    with_ray = [path.name for path in sorted((ROOT / "envs").glob("**/*.py")) if "ray" in imported_packages(path)]
    assert with_ray == ["ray_executor.py"]


@pytest.mark.parametrize("module", RAY_FREE)
def test_imports_in_a_process_without_ray(module):
    assert run(f"{BLOCK_RAY}\nimport {module}\nprint({module!r} in sys.modules, 'ray' in sys.modules)") == "True False"


def test_the_sampler_and_the_environment_work_without_ray():
    run(
        BLOCK_RAY
        + """
from bippo_rllib import BudgetSampler, policy_macs
import envs
env = envs.parallel_env(num_clients=4, rounds=1, budget_share=0.5)
_, infos = env.reset(seed=0)
costs = [infos[a]["cost"] for a in env.agents]
chosen = BudgetSampler(seed=0).select([0.5] * 4, costs, max(costs))
assert len(chosen) >= 1 and policy_macs() == 1664
"""
    )


def test_bippo_works_beside_a_foreign_package_called_envs(tmp_path):
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("FOREIGN = True\n")
    run(
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        "import envs; assert envs.FOREIGN\n"
        "from bippo_rllib import BippoConfig\n"
        "assert BippoConfig().epsilon_decay == 0.9\n",
        cwd=tmp_path,
    )


def run(code: str, cwd: Path = ROOT) -> str:
    """What it prints."""
    result = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
