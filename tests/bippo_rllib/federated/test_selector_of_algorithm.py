"""A selector's file holds all that makes up the method it was trained with; what it cannot hold is refused."""

from __future__ import annotations

import numpy as np
import pytest
from quick_federation import TINY
from ray.tune.registry import register_env
from selector_runs import budget_of, observed, reports_of
from toy_envs import Workers

import envs
from bippo_rllib import BippoConfig, BudgetSampler, BudgetSamplerConnector, ClientSelector, Reward
from bippo_rllib.learning.learner import BippoLearner
from bippo_rllib.selection.prior import RepresentativenessPrior
from envs import federation
from envs.rules.reward import OWN_EFFECT, REWARDS, TEAM_REWARDS, effect_reward


def picks_of_next_step(algo):
    algo.train()
    return sorted(agent for agent, action in algo.parallel_env.last_actions.items() if action)


@pytest.mark.parametrize("explore", [True, False])
def test_it_explores_if_the_method_does(ray_session, tmp_path, explore):
    config = BippoConfig().environment(Workers, env_config={"num_workers": 6, "rounds": 100})
    config.env_runners(explore=explore).multi_agent(policies_to_train=[]).debugging(seed=7, log_level="ERROR")
    algo = config.build_algo()
    algo.env_runner.start_episode()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "checkpoint"))
    assert repr(selector).endswith("sampler epsilon_greedy" + " without exploration" * (not explore))
    for _ in range(5):
        chosen = selector.select(observed(algo), 3.0)
        assert sorted(chosen) == picks_of_next_step(algo)
    assert selector._parts.sampler.epsilon == algo.sampler.epsilon == (pytest.approx(0.9**5) if explore else 1.0)
    asked_to = selector.select(observed(algo), 3.0, explore=True)
    assert asked_to and selector._parts.sampler.epsilon < (0.9**5 if explore else 1.0)


def team_of(agent_id, episode=None, **kwargs):
    return f"team_{agent_id[-2:]}"


class Readings(Workers):
    """What a prior reads has a custom name and unit."""

    def __init__(self, key="accuracy", unit=100.0, **kwargs):
        super().__init__(**kwargs)
        self._key, self._unit = key, unit

    def _infos(self):
        units = {agent: self._unit * (int(agent[-1]) ** 2 + self.time % 3) for agent in self.agents}
        return {agent: {**info, self._key: units[agent]} for agent, info in super()._infos().items()}


@pytest.mark.parametrize("key", ["reading", "accuracy", "num_samples", "loss", "trained"])
@pytest.mark.parametrize("mapping", [None, team_of])
def test_a_priors_records_go_on_whatever_the_names_of_policies_and_the_unit(ray_session, tmp_path, mapping, key):
    """In per cent, or below 0: only `FederatedRounds`' own accuracies and samples have the ranges of a report."""
    config = BippoConfig().environment(
        Readings,
        env_config={"num_workers": 5, "rounds": 100, "key": key, "unit": -50.0 if key == "num_samples" else 100.0},
    )
    config.selection(sampler="odds", prior_key=key, prior_weight=2.0, prior_only_lowers=mapping is None).debugging(
        seed=7, log_level="ERROR"
    )
    algo = (config.multi_agent(policy_mapping_fn=mapping) if mapping else config).build_algo()
    for _ in range(6):
        algo.train()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "checkpoint"))
    infos, name = algo.env_runner._episode.get_infos(-1), mapping or str
    reports = {name(a): {**report, key: infos[a][key]} for a, report in observed(algo).items()}
    chosen = selector.select(reports, 3.0)
    assert chosen and selector._parts.prior.record.get_state()["counts"].tolist() == [7] * 5
    assert sorted(chosen) == sorted(map(name, picks_of_next_step(algo)))
    assert selector.scores(reports, 3.0).keys() == set(selector.policy_ids)


def by_hand(key="reading", **kwargs):
    """A custom pipeline: prior and sampler."""
    connectors = [RepresentativenessPrior(key=key, **kwargs), BudgetSamplerConnector(BudgetSampler("odds", seed=1))]
    return lambda env, spaces: connectors


class Named(Workers):
    def __init__(self, **kwargs):
        super().__init__(num_workers=3, **kwargs)

    def _infos(self):
        return {a: {"cost": 1.0, "cost_j": 1.0, "budget": 2.0, "reading": float(a[-1])} for a in self.agents}


class OwnLearner(BippoLearner):
    pass


class OwnSampler(BudgetSampler):
    pass


def built(config):
    algo = config.environment(Named).debugging(seed=7, log_level="ERROR").build_algo()
    algo.env_runner.start_episode()
    return algo


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.training(learner_class=OwnLearner), "the learner is a OwnLearner"),
        (
            lambda c: c.env_runners(module_to_env_connector=lambda *_: [BudgetSamplerConnector(OwnSampler())]),
            "the sampler is a OwnSampler",
        ),
        (lambda c: c.multi_agent(policy_mapping_fn=lambda agent, *a, **k: f"{agent}#x"), "'worker_00#x' has a #"),
        (lambda c: c.selection(prior_key="cost_j", prior_weight=2.0), "the prior reads 'cost_j'"),
        (
            lambda c: c.env_runners(module_to_env_connector=by_hand(client_of=lambda agent: f"old {agent}")),
            "records of 'old worker_00', which is no policy",
        ),
        (lambda c: c.training(num_epochs=10**6), "num_epochs is 1000000"),
        (lambda c: c, "actor.0.weight .*not finite"),
    ],
)
def test_what_a_selector_would_not_do_as_the_method_does_is_refused(ray_session, tmp_path, change, why):
    """And never keeps a checkpoint from being written."""
    algo = built(change(BippoConfig()))
    if "finite" in why:
        algo.bank.flat[:] = np.nan
    elif "old" in why:
        algo.env_runner.sample(num_timesteps=1)
    with pytest.raises(ValueError, match=why):
        ClientSelector.load(algo.save_to_path(tmp_path / "checkpoint"))


def test_a_prior_of_a_custom_pipeline_is_deployed(ray_session, tmp_path):
    algo = built(BippoConfig().env_runners(module_to_env_connector=by_hand()))
    algo.train()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "checkpoint"))
    assert selector._parts.prior.record.get_state()["clients"] == selector.policy_ids


@pytest.mark.parametrize("base", [64.0, 4096.0])
@pytest.mark.parametrize("name", REWARDS)
def test_a_report_has_the_reward_that_the_environment_gives(ray_session, tmp_path, monkeypatch, name, base):
    """Also where the environment comes from a creator that says so nowhere in `env_config`."""
    given: list[tuple[float, float]] = []

    def noted(formula):
        return lambda first, *more: given.append((first, formula(first, *more))) or given[-1][1]

    if name in OWN_EFFECT:
        monkeypatch.setattr(federation, "effect_reward", noted(effect_reward))
    else:
        monkeypatch.setitem(TEAM_REWARDS, name, noted(TEAM_REWARDS[name]))
    target = {"reward_target": 0.3} if name == "accuracy_target" else {}
    keywords = {**TINY, "rounds": 40, "seed": 7, "reward": name, "reward_base": base, **target}
    register_env("federation", lambda context: envs.parallel_env(**keywords))
    algo = BippoConfig().environment("federation").debugging(seed=7, log_level="ERROR").build_algo()
    algo.env_runner.start_episode()
    selector = ClientSelector.load(algo.save_to_path(tmp_path / "checkpoint"))
    assert selector.reward == Reward(name, base, target.get("reward_target", 0.8))
    for _ in range(3):
        chosen = selector.select(reports_of(algo), budget_of(algo))
        given.clear()
        algo.train()
        trained = [f"client_{client:03d}" for client in algo.parallel_env.last_round.trained]
        assert sorted(chosen) == trained
        if name in OWN_EFFECT:
            selector.update(trained, effects={c: effect for c, (effect, _) in zip(trained, given, strict=True)})
        else:
            selector.update(trained, {client: report.accuracy for client, report in reports_of(algo).items()})
        last, rewards = selector._parts.last, [reward for _, reward in given]
        assert last.rewards[last.trained] == pytest.approx(rewards * (len(trained) // len(rewards)))
