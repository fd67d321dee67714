"""What the selector learns from a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.coalition_models import steps_on_server
from bippo_rllib.federated.flower.effects import leave_one_out, shapley
from bippo_rllib.federated.flower.evaluations import Evaluations
from bippo_rllib.federated.flower.node_reports import NodeReports
from bippo_rllib.federated.flower.running import Round
from bippo_rllib.federated.reports import ClientReport


def learned_from(learn: str | None, selector: ClientSelector) -> str | None:
    """Returns what the selector is to learn from: ``accuracies``, ``effects`` or None.

    Args:
        learn: The same, or ``auto`` for what its reward is of, if any of its policies learns.
        selector: The selector.

    Raises:
        ValueError: If ``learn`` is something else.
    """
    if learn not in ("auto", "accuracies", "effects", None):
        raise ValueError(f"learn is {learn!r}; choose 'auto', 'accuracies', 'effects' or None")
    if learn != "auto":
        return learn
    if not selector.learns or selector.reward is None:
        return None
    return "effects" if selector.reward.is_of_effects else "accuracies"


def update(
    selector: ClientSelector, learn: str | None, now: Round, after: NodeReports, evaluations: Evaluations
) -> dict[Any, float]:
    """Updates the selector with what was measured of a round, with nothing where nothing was.

    Args:
        selector: The selector.
        learn: What it learns from.
        now: The round.
        after: The evaluation after it.
        evaluations: Has further models evaluated, for effects.

    Returns:
        The effect of each participant on the mean accuracy, if it was measured.
    """
    if not after.reports or not now.reports or learn is None:
        return {}
    if learn == "effects":
        effects = _effects(selector, now, after, evaluations)
        selector.update(list(effects), effects=effects)
        return effects
    if not now.trained or now.reports.keys() & after.reports.keys():
        accuracies = {client: report.accuracy for client, report in after.reports.items()}
        selector.update(now.trained, accuracies)
    return {}


def _effects(selector: ClientSelector, now: Round, after: NodeReports, evaluations: Evaluations) -> dict[Any, float]:
    if now.coalitions is None or not now.trained:
        return {}

    def evaluate(model: ArrayRecord) -> Mapping[Any, ClientReport]:
        return evaluations.evaluate(now.number, model).reports

    with_all = None if steps_on_server(evaluations.strategy) else after.reports
    if selector.reward is not None and selector.reward.name == "shapley":
        return shapley(now.coalitions, now.reports, with_all, evaluate, now.number)
    return leave_one_out(now.coalitions, now.reports, with_all, evaluate)
