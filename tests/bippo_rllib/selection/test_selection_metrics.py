"""Metrics of the selection in any environment: exact, the same from both runners, an evaluation's apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from toy_envs import Workers

from bippo_rllib import BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.connector_columns import SUGGESTION
from bippo_rllib.selection.metrics import log_reward, selection_metrics

COSTS = np.array([1.0, 2.0, 1.0, 2.0])


class Unequal(Workers):
    """Every worker has a reward of its own; remembers what each step was."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.steps: list[tuple[list[bool], list[float]]] = []

    def step(self, actions):
        observations, _, *rest = super().step(actions)
        rewards = {agent: 0.1 * (int(agent[-1]) + self.time) for agent in actions}
        self.steps.append(([bool(actions[a]) for a in sorted(actions)], list(rewards.values())))
        return observations, rewards, *rest


class Halving(ConnectorV2):
    """Halves all suggestions, and remembers what the sampler is about to get."""

    heard: list[list[float]] = []  # noqa: RUF012

    def __call__(self, *, batch, **kwargs):
        if SUGGESTION in batch:
            for key, (suggestion,) in batch[SUGGESTION].items():
                batch[SUGGESTION][key] = [suggestion / 2]
            self.heard.append([batch[SUGGESTION][key][0] for key in sorted(batch[SUGGESTION])])
        return batch


def build(config_class=BippoConfig, runner=BippoEnvRunner):
    config = config_class().environment(Unequal, env_config={"num_workers": 4, "leaves_at": 3, "budget": 4.0})
    config.env_runners(module_to_env_connector=lambda *args, **kwargs: Halving())
    if config_class is BippoConfig:
        config.env_runners(env_runner_cls=runner)
    Halving.heard.clear()
    return config.debugging(seed=7, log_level="ERROR").build_algo()


def expected(acts: list[bool], rewards: list[float], scores: list[float], epsilon: float) -> dict[str, float]:
    spent = COSTS[-len(acts) :][acts].sum()  # the first one leaves
    return {
        "num_agents": len(acts),
        "num_selected": sum(acts),
        "spent": spent,
        "budget": 4.0,
        "budget_share": spent / 4.0,
        "score_std": np.std(np.array(scores, dtype=np.float64)),
        "score_min": float(min(scores)),
        "score_max": float(max(scores)),
        "reward": math.fsum(rewards) / len(rewards),
        **({} if math.isnan(epsilon) else {"epsilon": epsilon}),
    }


@pytest.mark.parametrize(
    ("config_class", "runner"),
    [(BippoConfig, BippoEnvRunner), (BippoConfig, EpisodeEnvRunner), (CentralPPOConfig, None)],
    ids=["arrays", "episodes", "central"],
)
def test_they_are_those_of_the_step_also_across_the_end_of_an_episode(config_class, runner, ray_session):
    algo = build(config_class, runner)
    found = []
    for _ in range(7):  # the episode has 5 steps
        found.append(algo.train()["env_runners"]["selection"])
        latest = algo.env_runner.sampler_connector().latest
        assert len(latest.agents) == len(latest.scores) and latest.scores.tolist() == Halving.heard[-1]
        assert latest.suggestions == pytest.approx(2 * latest.scores, rel=1e-6) and latest.suggestions.all()
    steps = zip(algo.parallel_env.steps, Halving.heard, strict=True)
    epsilon = 1.0 if config_class is BippoConfig else math.nan
    for selection, (step, heard) in zip(found, steps, strict=True):
        assert selection == expected(*step, heard, epsilon)
        epsilon *= 0.9
    assert {step["num_agents"] for step in found} == {3, 4}


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_an_evaluation_has_its_own_which_are_means_over_its_steps(runner, ray_session):
    algo = build(runner=runner)
    plain = [algo.train()["env_runners"]["selection"] for _ in range(4)]
    algo = build(runner=runner)
    results = [algo.train() for _ in range(2)]
    Halving.heard.clear()
    evaluated = algo.evaluate()["env_runners"]["selection"]
    heard = list(Halving.heard)
    results += [algo.train() for _ in range(2)]
    assert [result["env_runners"]["selection"] for result in results] == plain
    env = algo.eval_env_runner.env.envs[0].unwrapped.parallel_env
    each = [expected(*step, heard, math.nan) for step, heard in zip(env.steps, heard, strict=True)]
    assert len(each) == 5
    assert evaluated == pytest.approx({name: np.mean([step[name] for step in each]) for name in each[0]}, rel=1e-12)


def test_what_cannot_be_said_is_nan():
    costs, nobody = np.array([1.0, math.inf]), np.array([], dtype=np.int64)
    no_candidates = np.array([-math.inf, -math.inf])
    for budget in (0.0, math.inf):
        values = selection_metrics(no_candidates, costs, budget, nobody)
        said = {name: value for name, value in values.items() if not math.isnan(value)}
        assert said == {"num_agents": 2, "num_selected": 0, "spent": 0, "budget": budget}
        assert values.keys() == expected([True], [1.0], [0.5], math.nan).keys() - {"reward"}
    values = selection_metrics(np.array([0.25, -math.inf, 0.75]), np.ones(3), 2.0, np.array([2]))
    assert [values[f"score_{name}"] for name in ("std", "min", "max")] == [0.25, 0.25, 0.75]


def test_a_step_that_pays_nobody_has_nan_and_no_value_of_an_earlier_one():
    metrics = MetricsLogger()
    for rewards, found in (({"worker": 2.0}, 2.0), ({}, math.nan), ({"worker": 3.0}, 3.0)):
        log_reward(metrics, ["worker"], rewards, reduce="item")
        assert metrics.reduce(compile=True)["selection"]["reward"] == pytest.approx(found, nan_ok=True)
    several = MetricsLogger()
    for rewards in ({"worker": 2.0}, {}, {"worker": 3.0}):
        log_reward(several, ["worker"], rewards)
    assert several.reduce(compile=True)["selection"]["reward"] == 2.5


@pytest.mark.parametrize("runners", [(EpisodeEnvRunner, BippoEnvRunner), (BippoEnvRunner, EpisodeEnvRunner)])
def test_a_run_goes_on_with_the_other_runner(runners, tmp_path, ray_session):
    first, second = (build(runner=runner) for runner in runners)
    first.train()
    second.restore_from_path(first.save_to_path(tmp_path / "checkpoint"))
    found = second.train()["env_runners"]["selection"]
    assert found["epsilon"] == 0.9 and found["num_agents"] == 4
