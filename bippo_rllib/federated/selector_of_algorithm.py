"""The selector inside a ``Bippo`` algorithm, as the file that its checkpoints hold. Needs RLlib."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.federated.rewards import reward_of
from bippo_rllib.federated.selector_file import pack, pack_refusal
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.learning.learner import BippoLearner
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.rllib_compat import has_env_to_module_connectors
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.suggestion_connector import SuggestionConnector
from bippo_rllib.selection.update_matching import UpdateMatching


def selector_bytes(
    config: Any, learner: Any, pieces: Sequence[ConnectorV2], steps: int, environment: Any = None
) -> bytes:
    """Returns the file that ``ClientSelector.load`` reads; where no selector can do the same, one that says why.

    Args:
        config: The algorithm's ``BippoConfig``.
        learner: Its learner.
        pieces: Those of the module-to-env pipeline.
        steps: Environment steps so far.
        environment: The environment, whose ``config`` may name its reward.
    """
    own = [piece for piece in pieces if not type(piece).__module__.startswith("ray.rllib.connectors.")]
    reason = _why_not(config, learner, own)
    if reason:
        reason = f"{reason}, which takes RLlib; ClientSelector has policies, a prior and a budget sampler"
        return pack_refusal(reason, steps)
    *prior, sampler = own
    matching = sampler.set_score
    trained = [policy_id for policy_id in learner.bank.slots if learner.should_module_be_updated(policy_id)]
    try:
        return pack(
            SelectorParts(
                trainer=learner.trainer,
                sampler=sampler.sampler,
                observation_high=learner.bank.observation_space.high,
                settings=PPOSettings.of(config),
                prior=_prior(config, prior[0]) if prior else None,
                matching=matching if isinstance(matching, UpdateMatching) else None,
                reward=reward_of(environment),
                explore=config.explore,
                trains=None if config.policies_to_train is None else trained,
                steps=steps,
            )
        )
    except ValueError as error:  # weights that are no numbers any more, or settings beyond all reason
        return pack_refusal(f"no selector, since {error}", steps)


def _why_not(config: Any, learner: Any, own: Sequence[ConnectorV2]) -> str:
    """Returns what a selector lacks; nothing if it can select and learn as the algorithm does."""
    if not isinstance(learner, BippoLearner):
        return "one central network selects, tied to the clients it was trained with"
    if type(learner) is not BippoLearner:
        return f"the learner is a {type(learner).__name__}"
    if has_env_to_module_connectors(config):
        return "observations go through pieces of an env-to-module pipeline"
    kinds = [type(piece) for piece in own]
    if kinds not in ([BudgetSamplerConnector], [RepresentativenessPrior, BudgetSamplerConnector]):
        return f"the selection is a pipeline of {', '.join(map(_name, own))}"
    if type(own[-1].set_score) not in (type(None), UpdateMatching):
        return f"the set score is a {type(own[-1].set_score).__name__}"
    if type(own[-1].sampler) is not BudgetSampler:
        return f"the sampler is a {type(own[-1].sampler).__name__}"
    if unreachable := [policy_id for policy_id in learner.bank.slots if policy_of(policy_id) != policy_id]:
        return f"policy {unreachable[0]!r} has a # in its name, at which a client's id ends"
    return _why_no_records(config, own, learner.bank.slots)


def _prior(config: Any, piece: RepresentativenessPrior) -> Prior:
    """Returns the prior, which reads a client's cost under its name in reports."""
    return replace(piece.prior, key="cost_j") if piece.prior.key == config.cost_key else piece.prior


def _name(piece: ConnectorV2) -> str:
    name = piece.rule_name if isinstance(piece, SuggestionConnector) else type(piece).__name__
    set_score = piece.set_score if isinstance(piece, BudgetSamplerConnector) else None
    return name if set_score is None else f"{name} with {type(set_score).__name__}"


def _why_no_records(config: Any, own: Sequence[ConnectorV2], policy_ids: Collection[str]) -> str:
    """Returns why a selector, which reads reports and knows clients by their policies, cannot go on with the records.

    These are those of a prior and of update matching.
    """
    *priors, sampler = own
    records = [
        ("prior", {p.prior.key} - {config.cost_key}, p.client_of, p.prior.record.get_state()["clients"]) for p in priors
    ]
    if (matching := sampler.set_score) is not None:
        keys = {matching.key, matching.size_key}
        records.append(("set score", keys, sampler.client_of, list(matching.get_state()["profiles"])))
    for name, keys, client_of, clients in records:
        if taken := {"cost_j", "observation"} & keys:
            return f"the {name} reads {taken.pop()!r}, under which a report has something else"
        strangers = [client for client in clients if client not in policy_ids]
        if strangers and client_of != config.client_of:
            return f"the {name} has records of {strangers[0]!r}, which is no policy (client_of=)"
    return ""
