"""Who may import whom, and what works without Ray."""

from __future__ import annotations

import graphlib
import subprocess
import sys

import pytest
from source_tree import ROOT, import_graph, imports, modules, packages_imported

import bippo_rllib
from bippo_rllib.federated.environment import SHARED

#: Rooms and files of each package from the bottom up. A module imports from lower floors and from its own room; rooms
#: that share a floor do not know each other.
FLOORS: dict[str, list[list[str]]] = {
    package: [floor.split() for floor in floors.split("|")]
    for package, floors in {
        "bippo_rllib": "rllib_compat setting_error as_numbers | fields | selection method_settings |"
        "policies baselines | learning | runners federated |"
        "rllib_settings portable_config checkpoint_state | selection_settings | config_checks | config | bippo export |"
        "baselines.central | bippo_rllib",
        "envs": "checks rng agent_ids | imports | rules round_result dataset_defaults | settings | config | data |"
        "training devices episode_state | observation infos own_effects round_rewards | federation | fitting |"
        "federated_rounds | envs",
        "experiments": "scenario connector_methods shadowed_packages | scenarios | methods | results |"
        "cli argument_types custom_methods | study | report | benchmark tune_bippo commands new_study | __main__ |"
        "experiments",
    }.items()
}
#: RLlib's own idiom: a config names its algorithm, which is built from the config.
EXCEPTIONS = {("bippo_rllib.config", "bippo_rllib.bippo")}

#: Beside the package itself and all of ``envs`` but its Ray executor.
RAY_FREE = {
    "baselines": "bandit cyclic fedcor greedyfed hics label_balance norm_filter oort central.experience",
    "federated": "client_selector update_profiles",
    "learning": "adam objectives participation_buffer policy_trainer ppo_update",
    "policies": "actor_critic macs policy_stack saved_policies",
    "selection": "budget_sampler representativeness",
}
POSIX_MODULES = ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
KNOWS_RAY = "envs.training.ray_executor"
#: Is run by an interpreter that has pfl, which is in none of our extras.
OTHER_INTERPRETER = "experiments.benchmark.pfl_rounds"

BLOCK_RAY = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ray":
            raise ImportError("ray is blocked")

sys.meta_path.insert(0, Blocked())
"""


def graph_of(package: str) -> dict[str, set[str]]:
    """Its imports without the exceptions."""
    graph = import_graph(package)
    return {module: {name for name in names if (module, name) not in EXCEPTIONS} for module, names in graph.items()}


def room_of(module: str) -> str:
    """The room or file that a module is in; of rooms within each other the inner one, if it has a floor of its own."""
    package, *path = module.split(".")
    rooms = {room for rooms in FLOORS[package] for room in rooms}
    return ".".join(path[:2]) if ".".join(path[:2]) in rooms else (path or [package])[0]


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("bippo_rllib", {"envs", "experiments"}), ("envs", {"bippo_rllib", "experiments"})],
)
def test_arrows_between_packages_point_one_way(package: str, forbidden: set[str]) -> None:
    files = modules(package)
    assert len(files) > 5
    for path in files.values():
        assert not {name for name in imports(path) if name.partition(".")[0] in forbidden}, path


@pytest.mark.parametrize("name", SHARED)
def test_what_the_environment_shares_with_a_selector_needs_numpy_alone(name: str) -> None:
    files = modules("envs")
    needed = packages_imported(files[f"envs.{name}"]) | packages_imported(files["envs.rng"])
    assert needed <= {*sys.stdlib_module_names, "numpy", "envs"}
    assert import_graph("envs")[f"envs.{name}"] <= {"envs.rng"}


@pytest.mark.parametrize("package", FLOORS)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    circle: list[str] = []
    try:
        graphlib.TopologicalSorter(graph_of(package)).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]
    assert circle == []


@pytest.mark.parametrize("package", FLOORS)
def test_arrows_between_rooms_point_one_way(package: str) -> None:
    floor_of = {room: floor for floor, rooms in enumerate(FLOORS[package]) for room in rooms}
    graph = graph_of(package)
    assert {room_of(module) for module in graph} == floor_of.keys()
    upward = [
        f"{module} -> {name}"
        for module, names in graph.items()
        for name in names
        if room_of(name) != room_of(module) and floor_of[room_of(name)] >= floor_of[room_of(module)]
    ]
    assert sorted(upward) == []


def test_the_exceptions_are_still_needed() -> None:
    assert all(name in import_graph(module.partition(".")[0])[module] for module, name in EXCEPTIONS)


def test_the_version_is_stated_once():
    """In the package, which may also be used without being installed."""
    shown = subprocess.run([sys.executable, ROOT / "setup.py", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == bippo_rllib.__version__
    pages = [*ROOT.glob("*.toml"), ROOT / "setup.py", ROOT / "CITATION.cff", ROOT / "docs" / "conf.py"]
    assert [page.name for page in pages if bippo_rllib.__version__ in page.read_text("utf-8")] == []


def test_one_file_of_envs_knows_ray() -> None:
    assert [module for module, path in modules("envs").items() if "ray" in packages_imported(path)] == [KNOWS_RAY]


@pytest.mark.slow
def test_every_module_imports_where_what_only_posix_has_is_missing() -> None:
    """As on Windows, which this runs on no more than on macOS: other packages see to themselves and come first."""
    found = {module: path for package in FLOORS for module, path in modules(package).items()}
    del found[OTHER_INTERPRETER]
    others = {name for path in found.values() for name in imports(path)}
    imported = run(
        f"found, others, posix = {sorted(found)}, {sorted(others)}, {POSIX_MODULES!r}"
        + """
import contextlib, importlib, os, signal, sys

for name in others:
    if name.partition(".")[0] not in ("bippo_rllib", "envs", "experiments", *posix):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
sys.modules.update(dict.fromkeys(posix))
windows = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
for module, missing in (
    (signal, [name for name in vars(signal) if name.startswith("SIG") and name not in windows]),
    (os, ["fork", "getuid", "getgid", "killpg", "sched_getaffinity", "sysconf", "uname"]),
):
    for name in missing:
        delattr(module, name)
for module in found:
    importlib.import_module(module)
print(len(set(found) & sys.modules.keys()))
"""
    )
    assert int(imported) == len(found)


@pytest.mark.slow
def test_what_needs_no_ray_works_in_a_process_without_it() -> None:
    """And training on digits loads nothing that takes seconds more than torch does."""
    ray_free = ["bippo_rllib.export", "bippo_rllib.method_settings"]
    ray_free += [f"bippo_rllib.{room}.{name}" for room, names in RAY_FREE.items() for name in names.split()]
    ray_free += [name for name in modules("envs") if name != KNOWS_RAY]
    run(
        BLOCK_RAY
        + """
import envs
from bippo_rllib import BudgetSampler
from bippo_rllib.policies.macs import policy_macs

for env in (
    envs.parallel_env(num_clients=4, rounds=1, budget_share=0.5),
    envs.FederatedRounds(envs.FederationConfig(num_clients=4, rounds=1, budget_share=0.5)),
):
    _, infos = env.reset(seed=0)
    costs = [infos[agent]["cost"] for agent in env.agents]
    chosen = BudgetSampler(seed=0).select([0.5] * 4, costs, max(costs))
    assert len(chosen) >= 1
    env.step({env.agents[position]: 1 for position in chosen})
assert not {"torchvision", "torch._dynamo"} & sys.modules.keys()
"""
        + f"for module in {ray_free!r}:\n    importlib.import_module(module)\n"
        + """assert policy_macs() == 1664 and "ray" not in sys.modules"""
    )


def test_light_imports_load_nothing_that_takes_seconds() -> None:
    """Energy and reward do without torch and PettingZoo; the command's first line waits for nothing heavy."""
    run(
        """
import sys

import envs
envs.energy, envs.accuracy_reward
import experiments.tune_bippo
assert not {"ray", "torch", "pettingzoo", "matplotlib"} & sys.modules.keys(), sys.modules.keys()
assert envs.energy.round_energy_j(1, 1, 1, 1e9) > 0
"""
    )


def run(code: str) -> str:
    """What the code prints in a process of its own, in which nothing is imported yet."""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout
