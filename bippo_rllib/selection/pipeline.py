"""The selection's pieces of the module-to-env pipeline, as a configuration asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.info_ranking import InfoRanking
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.set_score import SetScore

Piece = TypeVar("Piece", bound=ConnectorV2)


def find_piece(pipeline: ConnectorPipelineV2, kind: type[Piece]) -> Piece | None:
    """The first piece of a kind in ``pipeline``, which may be a user's own."""
    return next((piece for piece in pipeline.connectors if isinstance(piece, kind)), None)


def new_sampler_connector(config: AlgorithmConfig, client_of: Callable[[Any], str] = str) -> BudgetSamplerConnector:
    """The budget sampler of a ``BippoConfig``, with its set score if there is one.

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
        seed=_seed(config, b"budget sampler"),
    )
    return BudgetSamplerConnector(
        sampler,
        cost_key=config.cost_key,
        budget_key=config.budget_key,
        set_score=new_set_score(config),
        client_of=client_of,
    )


def new_set_score(config: AlgorithmConfig) -> SetScore | None:
    """The set score of a ``BippoConfig``; None without one, or if its weight is 0.

    Raises:
        ValueError: If what should make one makes something else.
    """
    if config.set_score is None or not config.set_weight:
        return None
    score = config.set_score()
    if not isinstance(score, SetScore):
        raise ValueError(f"set_score makes a {type(score).__name__}; it must make a SetScore, such as a subclass of it")
    return score


def insert_scores(pipeline: ConnectorPipelineV2, config: AlgorithmConfig, client_of: Callable[[Any], str]) -> None:
    """Inserts the ranking or prior of a ``BippoConfig`` right before the budget sampler, if there is one."""
    sampler = find_piece(pipeline, BudgetSamplerConnector)
    for piece in (new_ranking(config), new_prior(config, client_of)):
        if sampler is not None and piece is not None:
            pipeline.insert_before(type(sampler), piece)


def new_ranking(config: AlgorithmConfig) -> InfoRanking | None:
    """The ranking of a ``BippoConfig``; None if agents are scored by their policies' suggestions."""
    if config.score_key is None:
        return None
    return InfoRanking(
        score_key=config.score_key,
        highest=config.highest_first,
        candidates=config.candidates,
        size_key=config.size_key,
        seed=_seed(config, b"candidates"),
    )


def new_prior(config: AlgorithmConfig, client_of: Callable[[Any], str]) -> RepresentativenessPrior | None:
    """The prior of a ``BippoConfig``; None if its weight is 0.

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
        client_of=client_of,
    )


def _seed(config: AlgorithmConfig, purpose: bytes) -> list[int] | None:
    """Key of a generator of its own for each purpose."""
    return None if config.seed is None else [config.seed, *purpose]
