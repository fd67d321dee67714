"""Checks of a ``BippoConfig``: RLlib settings that are not honoured, values out of range, contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import PPOConfig

from bippo_rllib.fields import BOOLEAN, PPO_FIELDS, PPO_OPTIONAL, TEXT, Field, real
from bippo_rllib.rllib_settings import ALSO_FINE, CHANGEABLE, CHANGED_IN_EVALUATION, HONOURED_ON_EPISODES, REASONS
from bippo_rllib.runners.base_env_runner import BaseEnvRunner
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.selection.set_score import SetScore
from bippo_rllib.setting_error import SettingError, did_you_mean


def refuse_unsupported_settings(config: AlgorithmConfig, default: AlgorithmConfig) -> None:
    """Refuses settings that would have no effect.

    Args:
        config: A ``BippoConfig``.
        default: A fresh ``BippoConfig``.

    Raises:
        SettingError: For the first such setting, with the reason and what is possible.
    """
    _refuse_unknown_settings(config)
    known = vars(PPOConfig())
    for name in (*(name for name in REASONS if name in known), *known):
        value, fine = getattr(config, name), (getattr(default, name), *ALSO_FINE.get(name, ()))
        set_by_rllib = config.in_evaluation and name in CHANGED_IN_EVALUATION
        if name not in CHANGEABLE and not set_by_rllib and value not in fine:
            why = REASONS.get(name, "it has no effect")
            value, *supported = _only_changes(value, *fine)
            only = f"BIPPO supports {' or '.join(map(repr, supported))} only: {why}"
            raise SettingError(name.strip("_"), value, only)
    for name in ("lr", "entropy_coeff"):
        if not isinstance(getattr(config, name), Real):
            raise SettingError(name, getattr(config, name), "it must be one number, not a schedule")
    _check_classes(config, default)


def _only_changes(value: Any, default: Any, *also_fine: Any) -> tuple[Any, ...]:
    """Returns the arguments, of dicts only the entries that differ."""
    if not (isinstance(value, dict) and isinstance(default, dict)):
        return value, default, *also_fine
    return {key: entry for key, entry in value.items() if default.get(key) != entry}, {}


def _refuse_unknown_settings(config: AlgorithmConfig) -> None:
    """Refuses unknown names, which RLlib would set; ``class`` is RLlib's, ``__stdout_file__`` and the like Tune's."""
    known = vars(type(config)())
    for name in vars(config):
        if name not in known and name != "class" and not name.startswith("__"):
            raise ValueError(f"{type(config).__name__} has no setting {name!r}{did_you_mean(name, known)}")


def _check_classes(config: AlgorithmConfig, default: AlgorithmConfig) -> None:
    """Checks that a custom env runner or learner is a subclass of BIPPO's."""
    runner, learner = config.env_runner_cls, config.learner_class
    if runner is None or not issubclass(runner, BaseEnvRunner):
        known = "use BippoEnvRunner, EpisodeEnvRunner or a subclass of one; others do not observe the budget"
        raise SettingError("env_runner_cls", getattr(runner, "__name__", None), known)
    base = config.get_default_learner_class()
    if not issubclass(learner, base):
        raise SettingError("learner_class", learner.__name__, f"use {base.__name__}, the default, or a subclass of it")
    if not issubclass(runner, BippoEnvRunner):
        return
    for name in HONOURED_ON_EPISODES.split():
        if getattr(config, name) != getattr(default, name):
            raise ValueError(
                f"{name.strip('_')} is set, but BippoEnvRunner works on arrays and has neither RLlib's episodes "
                "nor env-to-module connectors; use env_runners(env_runner_cls=EpisodeEnvRunner)."
            )


_COUNT = Field("an integer of at least 1", lambda value: isinstance(value, int) and value is not True and value >= 1)
_FIELDS = {
    **PPO_FIELDS,
    "prior_weight": real(),
    "prior_gain": real(0.0),
    "set_weight": real(),
    **dict.fromkeys(("highest_first", "prior_only_lowers", "prior_standardised"), BOOLEAN),
    **dict.fromkeys(("cost_key", "budget_key", "failed_key", "dropped_key"), TEXT),
    **dict.fromkeys(("score_key", "size_key", "prior_key"), TEXT),
    **dict.fromkeys(("policy_batch_size", "hidden_size", "num_epochs", "candidates"), _COUNT),
}
_LARGEST_SEED = 2**32 - 1 - 1_000_000
#: None turns these off.
_OPTIONAL = (*PPO_OPTIONAL, "candidates", "score_key")
#: What turns a part of the selection on -> settings that have no effect without it.
_NEEDS = {
    "score_key": ("highest_first", "candidates", "size_key"),
    "prior_weight": ("prior_key", "prior_gain", "prior_only_lowers", "prior_standardised"),
    "set_score": ("set_weight",),
}
#: Setting -> the one sampler that reads it.
ONLY_OF_SAMPLER = {
    "epsilon": "epsilon_greedy",
    "epsilon_decay": "epsilon_greedy",
    "epsilon_min": "epsilon_greedy",
    "outside_odds": "odds",
}


def check_settings(config: AlgorithmConfig, default: AlgorithmConfig) -> None:
    """Refuses settings of ``BippoConfig``, or of PPO, that are out of range or would have no effect.

    Args:
        config: A ``BippoConfig``.
        default: A fresh ``BippoConfig``.

    Raises:
        SettingError: For the first such setting.
    """
    check_ranges(config)
    check_seed(config.seed)
    check_selection(config, default)


def check_ranges(config: AlgorithmConfig) -> None:
    """Raises a SettingError for the first setting outside its range."""
    for name, field in _FIELDS.items():
        value = getattr(config, name)
        if not field.allows(value) and not (value is None and name in _OPTIONAL):
            raise SettingError(name, value, f"it must be {field.expected}")


def check_seed(seed: Any) -> None:
    """Raises a SettingError unless ``seed`` is None or one of NumPy's global generator, also in an evaluation.

    RLlib adds a million to the seed of an evaluation, and seeds the global generators with both.
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED):
        raise SettingError("seed", seed, f"it must be an integer from 0 to {_LARGEST_SEED}, or None for no seed")


def check_selection(config: AlgorithmConfig, default: AlgorithmConfig) -> None:
    """Refuses settings of ``BippoConfig.selection`` that would have no effect or that contradict each other.

    Raises:
        SettingError: For the first such setting.
    """
    for switch, names in _NEEDS.items():
        for name in names:
            value, state = getattr(config, name), getattr(config, switch)
            if not state and value != getattr(default, name):
                raise SettingError(name, value, f"it has no effect, since {switch} is {state!r}: set both")
    for name, sampler in ONLY_OF_SAMPLER.items():
        value = getattr(config, name)
        # An evaluation with a sampler of its own inherits the settings of the training run's.
        if not config.in_evaluation and config.sampler != sampler and value != getattr(default, name):
            only = f"it has no effect with sampler={config.sampler!r}, only with {sampler!r}"
            raise SettingError(name, value, only)
    if config.prior_weight and config.score_key is not None:
        ranking = f"score_key is {config.score_key!r}, and a ranking replaces the suggestions that a prior adjusts"
        raise SettingError("prior_weight", config.prior_weight, f"{ranking}: set only one of them")
    if config.sampler == "random" and not config.in_evaluation:
        # With candidates a ranking says at least among whom to draw.
        unread = {"prior_weight": config.prior_weight, "score_key": config.candidates is None and config.score_key}
        for name, value in unread.items():
            if value:
                only = "it has no effect with sampler='random', which draws whatever the scores"
                raise SettingError(name, value, only)
    if isinstance(config.set_score, SetScore):  # which can be called, too
        makes = "each run needs one of its own: give what makes it, its class or functools.partial of that"
        raise SettingError("set_score", config.set_score, makes)
    if config.set_score is not None and not callable(config.set_score):
        raise SettingError("set_score", config.set_score, "it must make a SetScore, such as a subclass of it")
    if config.set_score is not None and config.set_weight and config.sampler != "odds":
        needs = f"a set score needs sampler='odds', and sampler is {config.sampler!r}"
        raise SettingError("set_weight", config.set_weight, needs)


def check_bundles(bundles: Sequence[Mapping[str, float]]) -> None:
    """Raises a ValueError that shows the first bundle that is empty or has an amount that is not above 0."""
    for bundle in bundles:
        amounts = list(bundle.values())
        if not amounts or not all(isinstance(amount, int | float) and amount > 0 for amount in amounts):
            raise ValueError(f"bundle {dict(bundle)} reserves nothing; name resources, such as {{'CPU': 1}}")
