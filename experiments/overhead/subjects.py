"""What `experiments.overhead` measures, with stopwatches in place: BIPPO and its bare kernel, the central network,
stock RLlib."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from bippo_rllib import BippoConfig, BudgetSampler, BudgetSamplerConnector, CentralPPOConfig, ParallelEnvAdapter
from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.participation_buffer import ParticipationBatch
from bippo_rllib.learning.ppo_update import PPOSettings, update_policies
from bippo_rllib.learning.step_learner import NUM_POLICIES_UPDATED
from bippo_rllib.policies.actor_critic import actor_logits, log_prob_participate
from bippo_rllib.policies.agents import CENTRAL as CENTRAL_POLICY
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.policies.client_policy import policy_outputs
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.runners.parallel_env import FACTORY_KEY, KEYWORDS_KEY
from experiments.overhead.env import OBS_DIM, FreeRounds
from experiments.overhead.rows import Case
from experiments.overhead.stopwatch import Stopwatch

PAIR = 2
"""Rounds per update: the batch of a policy is two participations."""


@dataclass(frozen=True)
class Subject:
    """An algorithm under measurement."""

    algo: Any
    environment: ParallelEnvAdapter
    pair: Callable[[], int]  #: runs two rounds; returns how many policies were updated
    kernel: Callable[[], tuple[float, float]] | None  #: seconds of two bare forwards and of one bare update
    watch: Stopwatch


class TimedSampler(BudgetSamplerConnector):
    """The budget sampler with a stopwatch: gathering costs and budget from the infos, and the selection.

    Without exploration: the highest suggestions win, so that the same clients take part in every round.
    """

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__(BudgetSampler(epsilon=0.0, epsilon_min=0.0, seed=0))
        self._watch = watch

    def __call__(self, **kwargs: Any) -> dict[str, Any]:
        with self._watch.timing("sampler"):
            return super().__call__(**kwargs)


def build_bippo(case: Case, watch: Stopwatch) -> Subject:
    """Our algorithm; a pair is two `train()`."""
    algo = _build(BippoConfig(), case, watch)
    watch.wrap(algo.bank, "act", "forward")
    return _subject(algo, bare_kernel(algo.bank, case.num_participants), watch)


def build_central(case: Case, watch: Stopwatch) -> Subject:
    """The central baselines' network over all clients; a pair is two `train()`, of which the second updates it."""
    algo = _build(CentralPPOConfig(), case, watch)
    watch.wrap(algo.bank[CENTRAL_POLICY], "act", "forward")
    return _subject(algo, None, watch)


def _build(config: BippoConfig, case: Case, watch: Stopwatch) -> Any:
    config.environment(FreeRounds, env_config=_env_config(case)).debugging(seed=0)
    config.env_runners(module_to_env_connector=lambda env, spaces: TimedSampler(watch))
    algo = config.build_algo()
    watch.wrap(algo.learner_group, "update", "learner")
    return algo


def _subject(algo: Any, kernel: Callable[[], tuple[float, float]] | None, watch: Stopwatch) -> Subject:
    def pair() -> int:
        results = [algo.train() for _ in range(PAIR)]
        return sum(result["learners"]["__all_modules__"][NUM_POLICIES_UPDATED] for result in results)

    return Subject(algo, algo.env_runner.env.envs[0].unwrapped, pair, kernel, watch)


def bare_kernel(bank: PolicyBank, num_participants: int) -> Callable[[], tuple[float, float]]:
    """What no implementation on these tensors can leave out: a forward of all policies for each round and an update of
    the participants, all inputs ready."""
    generator = torch.Generator().manual_seed(0)
    observations = torch.rand(len(bank.slots), 1, OBS_DIM, generator=generator)
    flat, adam = bank.flat[:num_participants].clone(), StackedAdam(num_participants, bank.layout.size)
    batch = _full_batch(bank, num_participants, generator)

    def kernel() -> tuple[float, float]:
        start = time.perf_counter()
        for _ in range(PAIR):
            with torch.no_grad():
                policy_outputs(actor_logits(bank.layout.views(bank.flat[: len(bank.slots)]), observations))
        middle = time.perf_counter()
        update_policies(flat, bank.layout, adam, batch, PPOSettings())
        return middle - start, time.perf_counter() - middle

    return kernel


def _full_batch(bank: PolicyBank, num_participants: int, generator: torch.Generator) -> ParticipationBatch:
    shape = (num_participants, PAIR)
    observations = torch.rand(*shape, OBS_DIM, generator=generator)
    with torch.no_grad():
        logits = actor_logits(bank.layout.views(bank.flat[:num_participants]), observations)
    return ParticipationBatch(
        slots=torch.arange(num_participants),
        observations=observations,
        next_observations=torch.rand(*shape, OBS_DIM, generator=generator),
        log_probs=log_prob_participate(logits),
        rewards=torch.ones(shape),
        ends=torch.zeros(shape, dtype=torch.bool),
    )


def build_stock(case: Case, watch: Stopwatch) -> Subject:
    """RLlib's own multi-policy PPO with a policy per client, of which `num_participants` are trained; a pair is one
    `train()` on two environment steps.

    Choices that favour it: trained policies are named by a function (with a list RLlib builds a set for every module in
    every update), no KL term, no shuffling, and the selection is not made at all.
    """
    clients = FreeRounds(**_env_config(case)).possible_agents
    trained = frozenset(clients[: case.num_participants])
    config = (
        PPOConfig()
        .environment(
            ParallelEnvAdapter,
            env_config={FACTORY_KEY: FreeRounds, KEYWORDS_KEY: _env_config(case)},
            disable_env_checking=True,
            normalize_actions=False,
            clip_actions=False,
        )
        .env_runners(num_env_runners=0, rollout_fragment_length=PAIR)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=PAIR, minibatch_size=None, **_PAPER_PPO)
        .multi_agent(
            policies=set(clients),
            policy_mapping_fn=policy_of,
            policies_to_train=lambda policy, batch=None: policy in trained,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[128], fcnet_activation="tanh", vf_share_layers=False))
        .debugging(seed=0, log_level="ERROR")
    )
    algo = config.build_algo()
    watch.wrap(algo.env_runner.module, "forward_exploration", "forward")
    watch.wrap(algo.learner_group, "update", "learner")

    def pair() -> int:
        learners = algo.train()["learners"]
        return sum(Learner.TOTAL_LOSS_KEY in values for policy, values in learners.items() if policy in trained)

    return Subject(algo, algo.env_runner.env.envs[0].unwrapped, pair, None, watch)


_PAPER_PPO: dict[str, Any] = {
    "lr": 1e-3,
    "gamma": 0.9,
    "lambda_": 0.8,
    "clip_param": 0.2,
    "num_epochs": 8,
    "use_kl_loss": False,
    "shuffle_batch_per_epoch": False,
}


def _env_config(case: Case) -> dict[str, int]:
    return {"num_clients": case.num_clients, "num_participants": case.num_participants}
