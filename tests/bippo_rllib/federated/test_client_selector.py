"""The deployed selector picks and learns as the trained algorithm does, bit for bit, in a process without Ray."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import load_file
from selector_runs import budget_of, federation, observed, reports_of
from source_tree import ROOT
from toy_envs import Workers
from toy_selector import toy_reports

from bippo_rllib import BippoConfig, ClientSelector, Reward, export
from bippo_rllib.federated.selector_file import SELECTOR_FILE, pack
from bippo_rllib.method_settings import METHOD_SETTINGS
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from envs import federation as federation_module
from envs.rules.reward import effect_reward
from experiments.methods import METHODS

#: Method -> what its refusal names; all others select as in training.
REFUSED = {
    "ppo": "one central network selects",
    "fppo": "one central network selects",
    "pocd": "InfoRanking",
    "fedcbs": "LabelBalance",
    "bandit": "BanditSuggestions",
    "greedyfed": "GreedyFed",
    "hics": "HiCS",
    "fedcor": "FedCor",
    "normfilter": "NormFilter",
    "oracle": "OnlyClients",
}


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_selects_as_its_method_does_or_says_that_it_cannot(ray_session, tmp_path, method):
    algo = federation(method)
    path = algo.save_to_path(tmp_path / "checkpoint")
    if method in REFUSED:
        with pytest.raises(ValueError, match=f"{path}: .*{REFUSED[method]}.*, which takes RLlib"):
            ClientSelector.load(path)
    else:
        selector = ClientSelector.load(path)
        chosen = selector.select(reports_of(algo), budget_of(algo))
        algo.train()
        assert sorted(chosen) == [f"client_{client:03d}" for client in algo.parallel_env.last_round.trained]
        assert selector.learns == METHODS[method].learns


def stored(selector, folder):
    """What comes back from its file."""
    selector.save(folder / "file")
    return ClientSelector.load(folder / "file")


@pytest.mark.parametrize("method", ["bippo", "ippo", "bippo-r", "bippo-s", "oort", "cyclic", "poc"])
def test_it_goes_on_as_training_does_bit_for_bit(ray_session, tmp_path, monkeypatch, method):
    """From the middle of a run, and through a file after every call."""
    effects: list[float] = []
    monkeypatch.setattr(
        federation_module, "effect_reward", lambda effect, base: effects.append(effect) or effect_reward(effect, base)
    )
    algo = federation(method)
    for _ in range(3):
        algo.train()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "begin"))
    before = algo.bank.flat.clone()
    seen = algo.env_runner._episode.get_observations(-1)
    reports = reports_of(algo, **{agent: {"trained": bool(seen[agent][4])} for agent in seen})
    for _ in range(9):
        chosen = selector.select(reports, budget_of(algo))
        selector = stored(selector, tmp_path)
        effects.clear()
        algo.train()
        trained = [f"client_{client:03d}" for client in algo.parallel_env.last_round.trained]
        assert sorted(chosen) == trained
        reports = reports_of(algo)
        if method in ("bippo-r", "bippo-s"):
            selector.update(chosen, effects=dict(zip(trained, effects, strict=True)))
        elif METHODS[method].learns:
            selector.update(chosen, {client: report.accuracy for client, report in reports.items()})
        else:
            selector.update(chosen)
        selector = stored(selector, tmp_path)
    selector.select(reports, budget_of(algo))
    if METHODS[method].learns:
        selector.save(tmp_path / "end.safetensors")
        ours = load_file(tmp_path / "end.safetensors")
        theirs = load_file(f"{algo.save_to_path(tmp_path / 'end')}/{SELECTOR_FILE}")
        learned = [name for name in theirs if not name.startswith(("prior.", "matching."))]  # recorded one round more
        assert len(learned) > 10 and not algo.bank.flat.equal(before)
        for name in learned:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("method", sorted(METHOD_SETTINGS))
def test_a_fresh_selector_is_that_of_an_untrained_algorithm(ray_session, tmp_path, method):
    """But for the bounds of observations: nobody knows what the clients of a server may cost."""
    algo = federation(method)
    exported = ClientSelector.load(algo.save_to_path(tmp_path))
    fresh = ClientSelector.fresh(method, seed=7)
    for client in exported.policy_ids:
        fresh.add(client)
    exported._parts.observation_high[:] = 1.0
    assert pack(fresh._parts) == pack(exported._parts)
    fresh.save(tmp_path / "fresh")
    reports = {client: {**report, "update_profile": None} for client, report in toy_reports(20).items()}
    reports = {client: {**report, "loss": 2.0 - report["accuracy"]} for client, report in reports.items()}
    assert ClientSelector.load(tmp_path / "fresh").select(reports, 3.0) == exported.select(reports, 3.0) != []


@pytest.mark.parametrize(
    ("method", "seed", "message"),
    [
        ("ppo", 0, "one central network selects"),
        ("bippo_s", 0, "choose one of random, .*did you mean bippo-s"),
        (None, 0, "no selector that can start fresh"),
        *(("bippo", seed, f"seed is {seed}") for seed in (-1, True, 2**64)),
    ],
)
def test_what_cannot_start_fresh_is_refused(method, seed, message):
    with pytest.raises(ValueError, match=message) as error:
        ClientSelector.fresh(method, seed=seed)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def trained(ray_session, tmp_path_factory):
    """Workers, and a trial's folder of two checkpoints whose names are not in order."""
    algo = (
        BippoConfig()
        .environment(Workers, env_config={"num_workers": 6, "rounds": 100})
        .debugging(seed=7, log_level="ERROR")
        .build_algo()
    )
    trial = tmp_path_factory.mktemp("trial")
    for name in ("checkpoint_000009", "resumed_checkpoint"):
        for _ in range(6):
            algo.train()
        algo.save_to_path(trial / name)
    yield algo, trial


@pytest.mark.slow
def test_the_newest_whole_checkpoint_of_a_trial_is_exported_and_selects_without_ray(trained, tmp_path):
    algo, trial = trained
    file = tmp_path / "selector.safetensors"
    command = [sys.executable, "-m", "bippo_rllib.export", str(trial), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}: 6 policies, which learn, no prior, sampler epsilon_greedy\n"
    reports = {a: {**r, "observation": r["observation"].tolist()} for a, r in observed(algo).items()}
    code = f"""
import pickle, sys
from bippo_rllib import ClientSelector
pickle.load = pickle.loads = pickle.Unpickler = None
selector = ClientSelector.load({str(file)!r})
print([selector.select({reports!r}, 3.0) for _ in range(5)])
slow = {{"ray", "gymnasium", "pettingzoo", "pandas", "pyarrow", "scipy", "matplotlib"}}
assert not slow & sys.modules.keys(), slow & sys.modules.keys()
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    newest = ClientSelector.load(trial / "resumed_checkpoint")
    assert result.stdout.strip() == str([newest.select(reports, 3.0) for _ in range(5)]), result.stderr
    assert newest.select(reports, 3.0, explore=False) == picks_of(algo)


def picks_of(algo):
    """Of the next step, without exploring."""
    scores = ClientSelector.load(algo.save_to_path()).scores(observed(algo), 3.0)
    algo.env_runner.sample(num_timesteps=1, explore=False)
    chosen = [agent for agent, action in algo.parallel_env.last_actions.items() if action]
    return sorted(chosen, key=lambda agent: -scores[agent])


def test_a_checkpoint_that_is_cut_off_is_passed_over_and_named_where_it_is_all_there_is(trained, tmp_path):
    _, trial = trained
    results, copy = tmp_path / "results", tmp_path / "results" / "workers-seed7"
    for name, end in (("checkpoint_000009", None), ("resumed_checkpoint", -10)):
        (copy / name).mkdir(parents=True)
        (copy / name / SELECTOR_FILE).write_bytes((trial / name / SELECTOR_FILE).read_bytes()[:end])
    whole, cut = ClientSelector.load(trial / "checkpoint_000009"), copy / "resumed_checkpoint"
    assert ClientSelector.load(copy)._parts.steps == whole._parts.steps == 6

    def refused(folder, message):
        with pytest.raises(ValueError, match=message):
            ClientSelector.load(folder)

    refused(cut, "cut off")
    refused(results, "no selector at .*workers-seed7")
    (cut / SELECTOR_FILE).unlink()
    shutil.rmtree(copy / "checkpoint_000009")
    (copy / "events.out.tfevents.1.host").touch()  # as every trial has
    refused(copy, "no whole checkpoint")
    (cut / "learner_group").mkdir()
    refused(cut, "version")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{tmp}", "{tmp}/out"), "no selector at"),
        (("{tmp}/results", "{tmp}/out"), "no such file or folder"),
        (("{trial}", "{tmp}"), "is there already"),
        (("{trial}", "{tmp}/none/out"), "No such file or directory"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(trained, tmp_path, capsys, arguments, message):
    assert export.main([argument.format(tmp=tmp_path, trial=trained[1]) for argument in arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


class Numbered(Workers):
    """Its agents are numbers."""

    def __init__(self) -> None:
        super().__init__(num_workers=3)
        self.possible_agents = [0, 1, np.int64(2)]

    def _infos(self):
        return {agent: {"cost": 1.0, "budget": 2.0} for agent in self.agents}


def test_ids_are_of_any_kind_as_in_training(ray_session, tmp_path):
    algo = BippoConfig().environment(Numbered).debugging(seed=7, log_level="ERROR").build_algo()
    algo.train()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "numbers"))
    assert sorted(selector.select(observed(algo), 2.0)) == sorted(a for a, _ in picked_in_training(algo))
    reports = {client: {"observation": np.zeros(3), "cost_j": 1.0} for client in (1, np.int64(2), ("site", 3), "c")}
    chosen = selector.select(reports, 4.0)
    assert set(chosen) == set(reports) and selector.policy_ids == ["0", "1", "2", "('site', 3)", "c"]
    selector.update([("site", 3)], rewards=1.0)
    with pytest.raises(ValueError, match="1 and '1' would share the policy '1'"):
        selector.select({1: reports[1], "1": reports[1]}, 4.0)


def picked_in_training(algo):
    algo.train()
    return [(agent, action) for agent, action in algo.parallel_env.last_actions.items() if action]


def test_a_new_client_gets_the_policy_that_training_would_give_it(trained, tmp_path):
    algo, trial = trained
    selector, reports = ClientSelector.load(trial), observed(algo)
    late = {**reports, "late": reports["worker_00"], "worker_03#2": reports["worker_03"]}
    del late["worker_03"]  # it returned
    alike = selector.scores(reports, 3.0)["worker_03"]
    assert selector.scores(late, 3.0)["worker_03#2"] == alike and selector.policy_ids[6:] == []
    selector.add("late")
    assert selector.policy_ids[6:] == ["late"]
    algo.add_module("late")
    weights = load_file(f"{algo.save_to_path(tmp_path / 'grown')}/{SELECTOR_FILE}")
    algo.remove_module("late")
    selector.save(tmp_path / "file")
    of_policies = {name: rows for name, rows in load_file(tmp_path / "file").items() if len(rows) == 7}
    assert len(of_policies) > 10
    for name, rows in of_policies.items():
        np.testing.assert_array_equal(rows[6], weights[name][6], err_msg=name)
    for client in ("late", "worker_00"):
        selector.remove(client)
    assert selector.policy_ids == [f"worker_{i:02d}" for i in range(1, 6)]
    with pytest.raises(ValueError, match="no policy of 'late'"):
        selector.remove("late")


def test_a_client_that_left_ends_its_sequence_and_the_others_learn(trained):
    algo, trial = trained
    selector, reports = ClientSelector.load(trial), observed(algo)
    buffer, everyone = selector._parts.trainer.buffer, sorted(reports)
    selector.select(reports, 3.0)
    while not buffer.counts[0]:  # until something waits for the one that leaves
        selector.update(["worker_00"], rewards=1.0)
        selector.select(reports, 3.0)
    waiting = buffer.counts
    assert not buffer.get_state(np.array([0]))["ends"][0, 0]
    selector.update(everyone, rewards=dict.fromkeys(everyone, -1.0))
    del reports["worker_00"]
    selector.select(reports, 3.0)
    assert buffer.counts.tolist() == [1, *(1 - waiting[1:])]  # batches of two: one more waits, or an update was made
    assert buffer.get_state(np.array([0]))["ends"][0, 0]


def report_fields(**fields):
    return {"a": {"accuracy": 0.5, "num_samples": 10, "cost_j": 1.0} | fields}


@pytest.fixture(scope="module")
def federated(ray_session, tmp_path_factory):
    algo = federation("rep")
    path = algo.save_to_path(tmp_path_factory.mktemp("rep") / "checkpoint")
    return path


@pytest.mark.parametrize(
    ("reports", "budget", "message"),
    [
        (report_fields(accuracy=1.5), 1.0, "'a' has accuracy = 1.5.* at least 0 and at most 1"),
        (report_fields(num_samples=0), 1.0, "'a' has num_samples = 0.* at least 1"),
        (report_fields(num_samples="many"), 1.0, "'a' has num_samples = 'many'"),
        (report_fields(cost_j=-1.0), 1.0, "'a' has cost_j = -1.0.* at least 0"),
        (report_fields(cost_j=None), 1.0, "'a' has cost_j = None"),
        ({"a": {"num_samples": 10, "cost_j": 1.0}}, 1.0, "'a' has no accuracy; .*'num_samples', 'cost_j'"),
        ({"a": {"accuracy": 0.5, "num_samples": 10, "cost": 1.0}}, 1.0, "'a' has no cost_j; .*did you mean.*cost"),
        ([0.5], 1.0, r"reports is \[0.5\]; .*mapping"),
        ({"a": 0.5}, 1.0, "report of 'a' is 0.5; .*ClientReport"),
        (report_fields(trained=np.ones(2)), 1.0, r"'a' has trained = array.* True or False"),
        (report_fields(candidate="no"), 1.0, "'a' has candidate = 'no'.* True or False"),
        (report_fields(), float("nan"), "budget_j is nan.* at least 0"),
        (report_fields(observation=[0.5, 0.5]), 1.0, r"'a' has observation = \[0.5, 0.5\].* 5 finite numbers"),
    ],
)
def test_bad_reports_are_refused_by_name(federated, reports, budget, message):
    with pytest.raises(ValueError, match=message):
        ClientSelector.load(federated).select(reports, budget)


NO_REWARD = "no reward of accuracies or effects"


@pytest.mark.parametrize(
    ("of", "selected", "values", "message"),
    [
        ("clients", ["a"], {"accuracies": {}, "effects": {}}, "at most one of accuracies, effects and rewards"),
        ("workers", [], {"accuracies": {}, "rewards": 0.0}, "at most one of"),
        ("clients", ["a"], {"effects": {}}, "'a' has effect = None"),
        ("clients", ["a"], {"effects": {"a": 1.5}}, "'a' has effect = 1.5.* at least -1"),
        ("clients", ["a"], {"rewards": {"a": np.nan}}, "'a' has reward = nan"),
        ("clients", ["a"], {"rewards": 1e39}, r"'a' has reward = 1e\+39.* at most 3.40282e\+38"),
        ("clients", ["a"], {"accuracies": {"a": 2}}, "'a' has accuracy = 2"),
        ("clients", ["a"], {"accuracies": 0.5}, "accuracies is 0.5; .*mapping"),
        ("clients", ["a"], {"effects": [0.5]}, r"effects is \[0.5\]; .*mapping"),
        ("clients", "berlin-7", {}, r"trained is 'berlin-7'; .*\['berlin-7'\]"),
        ("clients", 3, {}, "trained is 3; .*list of clients"),
        ("clients", ["b"], {"rewards": 1.0}, r"\['b'\] cannot have trained"),
        ("workers", ["worker_00"], {"accuracies": {"worker_00": 0.5}}, NO_REWARD),
        ("workers", ["worker_00"], {"effects": {"worker_00": 0.5}}, NO_REWARD),
    ],
)
def test_bad_updates_are_refused_by_name(trained, federated, of, selected, values, message):
    selector = ClientSelector.load(federated if of == "clients" else trained[1])
    with pytest.raises(ValueError, match="no round to update"):
        selector.update([], {})
    selector.select(report_fields(), 1.0) if of == "clients" else selector.select(observed(trained[0]), 3.0)
    with pytest.raises(ValueError, match=message):
        selector.update(selected, **values)


def test_a_round_of_no_reports_selects_nobody(trained):
    workers = ClientSelector.load(trained[1])
    with pytest.raises(ValueError, match="trained on 3 numbers; each report needs them as its observation"):
        workers.select(report_fields(), 1.0)
    assert workers.select({}, 1.0) == [] and workers.scores({}, 1.0) == {}
    with pytest.raises(ValueError, match=r"\['worker_00'\] cannot have trained"):
        workers.update(["worker_00"], rewards=1.0)


def test_both_runners_write_the_same_file(ray_session, tmp_path, monkeypatch):
    files = []
    for config in (BippoConfig(), BippoConfig().env_runners(env_runner_cls=EpisodeEnvRunner)):
        algo = config.environment(Workers).debugging(seed=7, log_level="ERROR").build_algo()
        for _ in range(3):
            algo.train()
        monkeypatch.chdir(tmp_path)
        algo.save_to_path("relative")
        files.append((tmp_path / "relative" / SELECTOR_FILE).read_bytes())
    assert files[0] == files[1]


def test_where_the_environment_has_no_such_reward_load_names_one(trained):
    reports = {client: {**report, "accuracy": 0.5} for client, report in observed(trained[0]).items()}
    reports["worker_00"]["accuracy"] = -3.0
    selector = ClientSelector.load(trained[1])
    assert selector.reward is None and selector.select(reports, 3.0)  # accuracies of its own kind
    selector = ClientSelector.load(trained[1], reward=Reward(base=16.0))
    with pytest.raises(ValueError, match=r"'worker_00' has accuracy = -3.0"):
        selector.select(reports, 3.0)
    reports["worker_00"]["accuracy"] = 0.5
    selector.select(reports, 3.0)
    selector.update(["worker_00"], dict.fromkeys(reports, 0.75))
    assert selector._parts.last.rewards[0] == pytest.approx(16**0.25)


def test_the_examples_of_the_page_run(federated, tmp_path, monkeypatch, caplog):
    """One after the other; the last one makes of an actor what PyTorch alone runs."""
    export.main([federated, str(tmp_path / "selector.safetensors")])
    monkeypatch.chdir(tmp_path)
    first, *others = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "deploy.md").read_text("utf-8"), re.DOTALL)
    names: dict = {}
    exec(first, names)
    assert sum(names["reports"][client].cost_j for client in names["chosen"]) <= 5.0
    assert caplog.messages == ["no policies yet, so fresh ones, for berlin-7"]
    again = ClientSelector.load("selector.safetensors")
    as_mappings = {client: asdict(report) for client, report in names["reports"].items()}
    assert again.select(as_mappings, 5.0) == names["selector"].select(names["reports"], 5.0)
    for code in others:
        exec(code, names)
    assert names["selector"].policy_ids == sorted(names["reports"]) and names["profile"].shape == (64,)
    again._parts.prior = None
    seen = {"client_000": {"observation": names["observation"][0], "cost_j": 1.0}}
    assert again.scores(seen, 1.0) == pytest.approx({"client_000": names["probability"]}, abs=1e-6)


def test_a_score_that_is_none_names_its_client(federated):
    selector = ClientSelector.load(federated)
    selector._parts.prior = None
    selector.select(report_fields(), 1.0)
    selector._parts.trainer.policies.flat[:] = np.nan
    with pytest.raises(ValueError, match="the policy of 'a' has diverged"):
        selector.select(report_fields(), 1.0)
