"""What a ``BudgetedStrategy`` refuses when it is made."""

from __future__ import annotations

import copy

from flwr.serverapp.strategy import FedXgbCyclic, Strategy

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.environment import shared
from bippo_rllib.federated.flower.coalition_models import steps_on_server
from bippo_rllib.federated.flower.inner_strategies import adds_noise, inner_strategies
from bippo_rllib.federated.reports import ClientReport


def check_selector(selector: ClientSelector, *, learns: bool) -> None:
    """Refuses selectors that need other numbers than nodes report.

    Args:
        selector: The selector.
        learns: Whether accuracies or effects are to become rewards.

    Raises:
        ValueError: With the missing reports, in one line.
        ImportError: If another package called ``envs`` hides the needed one, in one line.
    """
    report = ClientReport(accuracy=0.5, num_samples=1, cost_j=0.0, loss=1.0 if selector.needs_loss else None)
    try:
        selector.scores(dict.fromkeys(selector.policy_ids[:1] or ["client_000"], report), 0.0)
    except ValueError as error:
        raise ValueError(f"nodes report accuracy, loss, samples and cost; the selector needs more: {error}") from error
    if selector.profile_size is not None:
        shared("rules.update_sketch")
    if learns and selector.reward is not None:
        shared("rules.reward")
        if selector.reward.name == "shapley":
            shared("rules.shapley")
    if learns and selector.reward is None:
        raise ValueError(
            "the selector does not know the reward that it was trained on, and can learn from neither accuracies nor "
            "effects; choose learn=None, or name one: ClientSelector.load(..., reward=Reward(...))"
        )


def check_same_selector(given: ClientSelector, saved: ClientSelector) -> None:
    """Raises a ValueError, with the first setting that differs, where a saved run has another selector."""
    ours, theirs = given.settings, saved.settings
    if differing := [name for name in ours if ours[name] != theirs[name]]:
        name = differing[0]
        raise ValueError(
            f"the saved run has another selector ({name} is {theirs[name]!r} there, and {ours[name]!r} here); "
            "give the selector that it started with, or start a new run with other files"
        )


def check_strategy(strategy: Strategy, *, effects: bool) -> None:
    """Refuses strategies that select themselves, or that cannot make the models that effects are measured with.

    Args:
        strategy: The strategy, with the strategies that it wraps.
        effects: Whether models without each participant are made and evaluated as well.

    Raises:
        ValueError: With the strategy, the problem and the remedy, in one line.
    """
    for inner in inner_strategies(strategy):
        _check_selects_none(inner)
        if effects and adds_noise(inner):
            raise ValueError(
                f"learn='effects' sends one model per participant to all nodes beside the one that "
                f"{type(inner).__name__} protects; choose learn='accuracies' or None"
            )
        if effects and inner is not strategy and steps_on_server(inner):
            raise ValueError(
                f"learn='effects' averages as {type(inner).__name__} does before its optimiser's step, which "
                f"{type(strategy).__name__} around it hides; choose learn='accuracies' or None"
            )
    if effects:
        _check_copies(strategy)


def _check_selects_none(strategy: Strategy) -> None:
    name = type(strategy).__name__
    if isinstance(strategy, FedXgbCyclic):
        raise ValueError(f"{name} trains its clients in turn, one a round, which leaves nothing to select")
    for setting in ("fraction_train", "fraction_evaluate"):
        if (fraction := getattr(strategy, setting, 1.0)) != 1.0:
            raise ValueError(
                f"{name} has {setting}={fraction}; give it 1.0: all nodes evaluate, and the selector picks who trains"
            )


def _check_copies(strategy: Strategy) -> None:
    try:
        copy.deepcopy(strategy)
    except Exception as error:  # of whatever the strategy holds
        raise ValueError(
            f"learn='effects' averages with copies of the strategy, and {type(strategy).__name__} cannot be copied "
            f"({type(error).__name__}: {error}); choose learn='accuracies' or None"
        ) from error
