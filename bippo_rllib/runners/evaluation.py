"""Separates evaluations from the training run."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.runners.base_env_runner import CONNECTORS, BaseEnvRunner


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """Restores the global generators of Python, NumPy and PyTorch (CPU) after the block.

    RLlib seeds them when it makes an env runner, and a user's environment may draw from them.
    """
    python, array = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(array)


def prepare_evaluation(evaluating: BaseEnvRunner, training: BaseEnvRunner) -> None:
    """Copies the state of the training run's connectors and all weights to the env runner of an evaluation.

    Epsilon is that of ``evaluation_config``, if it has one.

    Args:
        evaluating: Env runner of the evaluation. RLlib copies the learner's weights to it right after this, and would
            not after ``restore_from_path``, when it holds its weights for newer.
        training: Env runner of the training run.
    """
    evaluating.set_state(copy.deepcopy(training.get_state(components=CONNECTORS)))
    if "epsilon" in (training.config.evaluation_config or ()):
        evaluating.sampler_connector().sampler.epsilon = evaluating.config.epsilon
    evaluating.forget_weights_version()
    if evaluating.config.evaluation_force_reset_envs_before_iteration:
        evaluating.needs_reset = True
    if isinstance(training.module, PolicyBank):  # an agent that returns gets a new policy here, too
        live = set(evaluating.live_policies)
        for policy_id in training.module.removed & evaluating.module.slots.keys():
            slot = evaluating.module.remove_policy(policy_id)
            if policy_id not in live:  # or its agent acts with the row until it leaves
                evaluating.module.free.append(slot)
