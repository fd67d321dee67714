"""Makes the connectors of the selection from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.generator import seed_for
from bippo_rllib.selection.info_ranking import InfoRanking
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.set_score import SetScore

Connector = TypeVar("Connector", bound=ConnectorV2)


def find_connector(pipeline: ConnectorPipelineV2, kind: type[Connector]) -> Connector | None:
    """Returns the first connector of a kind in ``pipeline``; None if there is none."""
    return next((connector for connector in pipeline.connectors if isinstance(connector, kind)), None)


def new_sampler_connector(config: AlgorithmConfig, client_of: Callable[[Any], str] = str) -> BudgetSamplerConnector:
    """Makes the budget sampler of a ``BippoConfig``, with its set score if there is one.

    Args:
        config: A ``BippoConfig``.
        client_of: Agent id -> client.

    Raises:
        ValueError: If one of its settings is out of range.
    """
    sampler = BudgetSampler(
        config.sampler,
        epsilon=config.epsilon,
        epsilon_decay=config.epsilon_decay,
        epsilon_min=config.epsilon_min,
        outside_odds=config.outside_odds,
        set_weight=config.set_weight,
        seed=seed_for(config.seed, "budget sampler"),
    )
    return BudgetSamplerConnector(
        sampler,
        cost_key=config.cost_key,
        budget_key=config.budget_key,
        set_score=new_set_score(config),
        client_of=client_of,
    )


def new_set_score(config: AlgorithmConfig) -> SetScore | None:
    """Makes the set score of a ``BippoConfig``; None without one, or if its weight is 0.

    Raises:
        ValueError: If ``set_score`` makes something else.
    """
    if config.set_score is None or not config.set_weight:
        return None
    score = config.set_score()
    if not isinstance(score, SetScore):
        raise ValueError(f"set_score makes a {type(score).__name__}; it must make a SetScore, such as a subclass of it")
    return score


def insert_scores(pipeline: ConnectorPipelineV2, config: AlgorithmConfig, client_of: Callable[[Any], str]) -> None:
    """Inserts the ranking or prior of a ``BippoConfig`` right before the budget sampler, if there is one."""
    sampler = find_connector(pipeline, BudgetSamplerConnector)
    for connector in (new_ranking(config), new_prior(config, client_of)):
        if sampler is not None and connector is not None:
            pipeline.insert_before(type(sampler), connector)


def new_ranking(config: AlgorithmConfig) -> InfoRanking | None:
    """Makes the ranking of a ``BippoConfig``; None if agents are scored by their policies' suggestions."""
    if config.score_key is None:
        return None
    return InfoRanking(
        score_key=config.score_key,
        highest_first=config.highest_first,
        candidates=config.candidates,
        size_key=config.size_key,
        seed=seed_for(config.seed, "candidates"),
    )


def new_prior(config: AlgorithmConfig, client_of: Callable[[Any], str]) -> RepresentativenessPrior | None:
    """Makes the prior of a ``BippoConfig``; None if its weight is 0.

    Args:
        config: A ``BippoConfig``.
        client_of: Agent id -> client.
    """
    if not config.prior_weight:
        return None
    return RepresentativenessPrior(
        key=config.prior_key,
        weight=config.prior_weight,
        gain=config.prior_gain,
        only_lowers=config.prior_only_lowers,
        standardised=config.prior_standardised,
        client_of=client_of,
    )
