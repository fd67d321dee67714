"""Predicts what the sampler picks by. Changes nothing: copies record the reports."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.federated.observed import Observed
from bippo_rllib.federated.ranking import Ranking
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.policies.actor_critic import log_prob_participate
from bippo_rllib.selection.representativeness import Prior, Representativeness
from bippo_rllib.selection.update_matching import UpdateMatching


@dataclass(frozen=True)
class Prediction:
    """What N policies suggest, and the scores that a prior or a ranking makes of it."""

    log_probs: np.ndarray  #: ``float32[N]`` log pi(participate | s)
    scores: np.ndarray  #: ``[N]`` what the sampler picks by
    prior: Prior | None  #: the prior with these reports recorded
    matching: UpdateMatching | None  #: the set score with these reports recorded
    ranking: Ranking | None  #: the ranking after the round


def predict(parts: SelectorParts, changed: PolicyTrainer, observed: Observed) -> Prediction:
    """Computes the scores, policies' suggestions adjusted by the prior or a ranking's, and prepares the set score.

    Args:
        parts: The selector; unchanged.
        changed: Policies that replace the selector's, and new ones.
        observed: The available clients.

    Raises:
        ValueError: If update profiles cannot be scaled to each other; in one line.
    """
    log_probs = log_prob_participate(_logits(parts.trainer, changed, observed))
    scores, prior, matching, ranking = log_probs.exp().numpy(), parts.prior, parts.matching, parts.ranking
    if not observed.ids:
        return Prediction(log_probs.numpy(), scores, prior, matching, ranking)
    with np.errstate(over="ignore", invalid="ignore"):  # of huge reports; the sampler refuses what becomes NaN
        if ranking is not None:
            ranking = copy.deepcopy(ranking)
            scores = ranking.scores(observed)
        if prior is not None and observed.prior_reports is not None:
            prior = _copy_of(prior)
            scores = prior.scores(scores, observed.ids, observed.prior_reports)
        if matching is not None and observed.updates is not None:
            matching = copy.copy(matching)
            matching.observe(observed.ids, observed.updates)
    return Prediction(log_probs.numpy(), scores, prior, matching, ranking)


def _logits(trainer: PolicyTrainer, changed: PolicyTrainer, observed: Observed) -> Tensor:
    """Returns ``[N, 2]``, each client's logits by its policy in ``changed``, or else in ``trainer``."""
    result = torch.empty(len(observed.ids), 2)
    is_changed = np.array([policy_id in changed.policies.slots for policy_id in observed.ids], dtype=bool)
    for policies, which in ((changed.policies, is_changed), (trainer.policies, ~is_changed)):
        index = np.flatnonzero(which)
        slots = policies.slots_of([observed.ids[i] for i in index.tolist()])
        result[torch.from_numpy(index)] = policies.logits(slots, observed.observations[index])
    return result


def _copy_of(prior: Prior) -> Prior:
    record = Representativeness()
    record.set_state(prior.record.get_state())
    return replace(prior, record=record)
