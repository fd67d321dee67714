"""Stock RLlib under measurement: its own multi-policy PPO with a policy per client."""

from __future__ import annotations

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from bippo_rllib import BippoConfig
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.runners.parallel_env import rllib_env
from experiments.benchmark.rl.free_rounds import PAIR, FreeRounds
from experiments.benchmark.rl.rows import Case
from experiments.benchmark.rl.stopwatch import Stopwatch
from experiments.benchmark.rl.subjects import Subject, env_config

_SAME_AS_OURS = (
    "lr",
    "gamma",
    "lambda_",
    "clip_param",
    "num_epochs",
    "minibatch_size",
    "use_kl_loss",
    "shuffle_batch_per_epoch",
)


def build_stock(case: Case, watch: Stopwatch) -> Subject:
    """A pair is one ``train()`` on two environment steps, after which ``num_participants`` policies are trained.

    Choices that favour it: trained policies are named by a function (with a list RLlib builds a set for every module in
    every update), no KL term, no shuffling, and the selection is not made at all.
    """
    clients = FreeRounds(**env_config(case)).possible_agents
    trained = frozenset(clients[: case.num_participants])
    algo = _config(case, clients, trained).build_algo()
    watch.wrap(algo.env_runner.module, "forward_exploration", "forward")
    watch.wrap(algo.learner_group, "update", "learner")

    def pair() -> int:
        learners = algo.train()["learners"]
        return sum(Learner.TOTAL_LOSS_KEY in values for policy, values in learners.items() if policy in trained)

    return Subject(algo, algo.env_runner.env.envs[0].unwrapped, pair, None, watch)


def _config(case: Case, clients: list[str], trained: frozenset[str]) -> PPOConfig:
    ours = BippoConfig()
    network = DefaultModelConfig(fcnet_hiddens=[ours.hidden_size], fcnet_activation="tanh", vf_share_layers=False)
    return (
        PPOConfig()
        .environment(
            rllib_env(FreeRounds),
            env_config=env_config(case),
            disable_env_checking=True,
            normalize_actions=False,
            clip_actions=False,
        )
        .env_runners(num_env_runners=0, rollout_fragment_length=PAIR)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=PAIR, **{name: getattr(ours, name) for name in _SAME_AS_OURS})
        .multi_agent(
            policies=set(clients),
            policy_mapping_fn=policy_of,
            policies_to_train=lambda policy, batch=None: policy in trained,
        )
        .rl_module(model_config=network)
        .debugging(seed=0, log_level="ERROR")
    )
