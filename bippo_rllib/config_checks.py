"""What a ``BippoConfig`` refuses by name: RLlib settings it does not honour, and values out of range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from bippo_rllib.runners.env_runner import BippoEnvRunner

_ONE_PROCESS = "parallelism comes from Tune trials and from the environment itself"
_WHOLE_BATCH = "each epoch is one step on the policy's whole batch, see policy_batch_size"

#: Setting -> (values that are fine, why no other).
_SUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "num_env_runners": ((0,), f"RLlib loses the sampler's epsilon between remote env runners; {_ONE_PROCESS}"),
    "num_envs_per_env_runner": ((1,), "the budget is shared within one environment"),
    "num_learners": ((0,), f"policies are updated where they act; {_ONE_PROCESS}"),
    "num_gpus_per_learner": ((0,), "the policies are too small to gain from a GPU; give it to the environment"),
    "train_batch_size_per_learner": ((1, None), "one train() is one environment step"),
    "rollout_fragment_length": ((1, "auto"), "one train() is one environment step"),
    "batch_mode": (("truncate_episodes",), "one train() is one environment step"),
    "count_steps_by": (("env_steps",), "one train() is one environment step"),
    "minibatch_size": ((None,), _WHOLE_BATCH),
    "shuffle_batch_per_epoch": ((False,), _WHOLE_BATCH),
    "use_gae": ((True,), "advantages are generalised advantage estimates"),
    "use_kl_loss": ((False,), "the objective has no KL term"),
    "grad_clip_by": (("global_norm",), "gradients are clipped by each policy's global norm"),
    "_learner_connector": ((None,), "the learner reads the episodes itself"),
    "algorithm_config_overrides_per_module": (({},), "all policies are updated in one batch with one setting"),
    "restart_failed_sub_environments": ((False,), "a restarted environment would lose its rounds"),
    "torch_compile_learner": ((False,), "modules this small do not gain from compilation"),
    "min_time_s_per_iteration": ((None, 0), "one train() is one environment step"),
    "min_sample_timesteps_per_iteration": ((0, None), "one train() is one environment step"),
    "min_train_timesteps_per_iteration": ((0, None), "one train() is one environment step"),
    "evaluation_num_env_runners": ((0,), f"nothing is evaluated; {_ONE_PROCESS}"),
    "evaluation_interval": ((None, 0), "evaluating would spend budget; use algo.env_runner.sample(explore=False)"),
}


def refuse_unsupported_settings(config: AlgorithmConfig) -> None:
    """Raises a ValueError that names the first setting BIPPO would not honour, its value, what is possible and why."""
    for name, (fine, why) in _SUPPORTED.items():
        value = getattr(config, name)
        if value not in fine:
            choices = " or ".join(repr(choice) for choice in fine)
            raise ValueError(f"{name.lstrip('_')}={value!r} is not supported by BIPPO: {why}. Use {choices}.")
    if config._rl_module_spec is not None:
        raise ValueError("rl_module_spec is set, but BIPPO's policies have a fixed form; set hidden_size instead.")
    if config._env_to_module_connector is not None and issubclass(config.env_runner_cls, BippoEnvRunner):
        raise ValueError(
            "env_to_module_connector is set, but BippoEnvRunner works on arrays and runs no env-to-module pieces; use "
            "env_runners(env_runner_cls=bippo_rllib.EpisodeEnvRunner), RLlib's own path."
        )
    for name in ("lr", "entropy_coeff"):
        if not isinstance(getattr(config, name), int | float):
            raise ValueError(f"{name}={getattr(config, name)!r} is a schedule; BIPPO takes one number.")


#: Setting -> (lowest, highest, whether the lowest itself is fine).
_RANGES: dict[str, tuple[float, float, bool]] = {
    "lr": (0.0, math.inf, False),
    "gamma": (0.0, 1.0, True),
    "lambda_": (0.0, 1.0, True),
    "clip_param": (0.0, math.inf, False),
    "vf_loss_coeff": (0.0, math.inf, True),
    "vf_clip_param": (0.0, math.inf, False),
    "grad_clip": (0.0, math.inf, False),
    "entropy_coeff": (0.0, math.inf, True),
    "prior_weight": (-math.inf, math.inf, True),
    "prior_gain": (0.0, math.inf, True),
}
_COUNTS = ("policy_batch_size", "hidden_size", "num_epochs", "candidates")
#: None turns these off.
_OPTIONAL = ("vf_clip_param", "grad_clip", "candidates")


def check_ranges(config: AlgorithmConfig) -> None:
    """Raises a ValueError that names the first setting outside its range."""
    for name in (*_RANGES, *_COUNTS):
        value = getattr(config, name)
        if value is None and name in _OPTIONAL:
            continue
        if name in _COUNTS and (not isinstance(value, int | np.integer) or value < 1):
            raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1")
        if name in _RANGES and not _is_within(value, *_RANGES[name]):
            raise ValueError(f"{name} is {value!r}; it must be {_range_text(*_RANGES[name])}")


def _is_within(value: Any, low: float, high: float, closed: bool) -> bool:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return (low <= value if closed else low < value) and value <= high


def _range_text(low: float, high: float, closed: bool) -> str:
    if low == -math.inf:
        return "a finite number"
    above = f"at least {low:g}" if closed else f"above {low:g}"
    return f"a number {above}" if high == math.inf else f"a number {above} and at most {high:g}"


def check_prior(config: AlgorithmConfig) -> None:
    """Raises a ValueError where the settings of a prior would not be honoured."""
    if config.prior_weight and config.score_key is not None:
        raise ValueError(
            f"prior_weight is {config.prior_weight} and score_key {config.score_key!r}, but a ranking takes the place "
            "of the suggestions that a prior adjusts; use BippoConfig.prior or BippoConfig.rank_by"
        )
    if not config.prior_weight and config.prior_gain != 1.0:
        raise ValueError(
            f"prior_gain is {config.prior_gain}, but prior_weight is 0, which turns the prior off; set prior_weight too"
        )


def check_bundles(bundles: Sequence[Mapping[str, float]]) -> None:
    """Raises a ValueError that shows the first bundle that is empty or has an amount that is not above 0."""
    for bundle in bundles:
        amounts = list(bundle.values())
        if not amounts or not all(isinstance(amount, int | float) and amount > 0 for amount in amounts):
            raise ValueError(f"bundle {dict(bundle)} reserves nothing; name resources, such as {{'CPU': 1}}")
