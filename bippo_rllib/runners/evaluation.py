"""What keeps an evaluation away from the training run."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.runners.base_env_runner import PIECES, BaseEnvRunner


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """Puts Python's, NumPy's and PyTorch's CPU generator back to where they were.

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
    """Starts an evaluation from a copy of what the training run's connector pieces know, and of all weights.

    Of what the pieces know only epsilon may be another one: that of ``evaluation_config``.

    Args:
        evaluating: Env runner of the evaluation. RLlib copies the learner's weights right after this, unless it takes
            those it has for newer, as after ``restore_from_path``.
        training: Env runner of the training run.
    """
    evaluating.set_state(copy.deepcopy(training.get_state(components=PIECES)))
    if "epsilon" in (training.config.evaluation_config or ()):
        evaluating.sampler_connector.sampler.epsilon = evaluating.config.epsilon
    evaluating.forget_weights_version()
    if isinstance(training.module, PolicyBank):  # those that were removed start afresh here, too
        for policy_id in training.module.removed & evaluating.module.slots.keys():
            evaluating.module.remove_policy(policy_id)
    if evaluating.config.evaluation_force_reset_envs_before_iteration:
        evaluating.needs_reset = True
