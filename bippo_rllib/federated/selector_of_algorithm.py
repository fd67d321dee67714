"""The selector inside a ``Bippo`` algorithm, as the file that its checkpoints hold. Needs RLlib."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.federated.ranking import Ranking, ReportRanking, RuleRanking
from bippo_rllib.federated.rewards import reward_of
from bippo_rllib.federated.selector_file import pack, pack_refusal
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.learning.learner import BippoLearner
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.rllib_compat import has_env_to_module_connectors
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.info_ranking import InfoRanking
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.suggestion_connector import SuggestionConnector
from bippo_rllib.selection.update_matching import UpdateMatching


def selector_bytes(config: Any, learner: Any, connectors: Sequence[ConnectorV2], steps: int, environment: Any) -> bytes:
    """Returns the file that ``ClientSelector.load`` reads; if no selector can do the same, a file with the reason.

    Args:
        config: The algorithm's ``BippoConfig``.
        learner: Its learner.
        connectors: Connectors of the module-to-env pipeline.
        steps: Environment steps so far.
        environment: The environment, whose ``config`` may name its reward.
    """
    ours = [connector for connector in connectors if not type(connector).__module__.startswith("ray.rllib.connectors.")]
    reason = _why_not(config, learner, ours)
    if reason:
        reason = (
            f"{reason}, which takes RLlib; ClientSelector has policies, a prior, UpdateMatching and a budget sampler"
        )
        return pack_refusal(reason, steps)
    *before, sampler = ours
    prior = next((connector for connector in before if isinstance(connector, RepresentativenessPrior)), None)
    matching = sampler.set_score
    trained = [policy_id for policy_id in learner.bank.slots if learner.should_module_be_updated(policy_id)]
    try:
        return pack(
            SelectorParts(
                trainer=learner.trainer,
                sampler=sampler.sampler,
                observation_high=learner.bank.observation_space.high,
                settings=PPOSettings.of(config),
                prior=None if prior is None else replace(prior.prior, key=_key(config, prior.prior.key)),
                matching=matching if isinstance(matching, UpdateMatching) else None,
                ranking=next((_ranking(config, connector) for connector in before if connector is not prior), None),
                reward=reward_of(environment),
                explore=config.explore,
                trains=None if config.policies_to_train is None else trained,
                steps=steps,
            )
        )
    except ValueError as error:  # weights that are no numbers any more, or settings beyond all reason
        return pack_refusal(f"no selector, since {error}", steps)


def _why_not(config: Any, learner: Any, ours: Sequence[ConnectorV2]) -> str:
    """Returns what a selector lacks; nothing if it can select and learn as the algorithm does."""
    if not isinstance(learner, BippoLearner):
        return "one central network selects, tied to the clients it was trained with"
    if type(learner) is not BippoLearner:
        return f"the learner is a {type(learner).__name__}"
    if has_env_to_module_connectors(config):
        return "observations go through connectors of an env-to-module pipeline"
    kinds = [type(connector) for connector in ours]
    known = kinds == [RepresentativenessPrior, BudgetSamplerConnector] or all(map(_is_ranking, ours[:-1]))
    if kinds[-1:] != [BudgetSamplerConnector] or len(ours) > 2 or not known:
        return f"the selection is a pipeline of {', '.join(map(_name, ours))}"
    if type(ours[-1].set_score) not in (type(None), UpdateMatching):
        return f"the set score is a {type(ours[-1].set_score).__name__}"
    if type(ours[-1].sampler) is not BudgetSampler:
        return f"the sampler is a {type(ours[-1].sampler).__name__}"
    if unreachable := [policy_id for policy_id in learner.bank.slots if policy_of(policy_id) != policy_id]:
        return f"policy {unreachable[0]!r} has a # in its name, at which a client's id ends"
    return _why_no_records(config, ours, learner.bank.slots)


def _key(config: Any, key: str) -> str:
    """Returns the name in reports of what infos have under ``key``."""
    return "cost_j" if key == config.cost_key else key


def _is_ranking(connector: ConnectorV2) -> bool:
    """Whether a selector has the same ranking."""
    if type(connector) is InfoRanking:
        return connector.candidates is None
    return type(connector) is RuleConnector and type(connector.rule) in (Cyclic, Oort)


def _ranking(config: Any, connector: Any) -> Ranking:
    if isinstance(connector, InfoRanking):
        return ReportRanking(_key(config, connector.score_key), connector.highest_first)
    return RuleRanking(connector.rule)


def _name(connector: ConnectorV2) -> str:
    name = connector.rule_name if isinstance(connector, SuggestionConnector) else type(connector).__name__
    set_score = connector.set_score if isinstance(connector, BudgetSamplerConnector) else None
    return name if set_score is None else f"{name} with {type(set_score).__name__}"


def _why_no_records(config: Any, ours: Sequence[ConnectorV2], policy_ids: Collection[str]) -> str:
    """Returns why a selector, which reads reports and knows clients by their policies, cannot go on with the records.

    These are records of a prior and of update matching.
    """
    *before, sampler = ours
    priors = [connector for connector in before if isinstance(connector, RepresentativenessPrior)]
    records = [
        ("prior", {p.prior.key} - {config.cost_key}, p.client_of, p.prior.record.get_state()["clients"]) for p in priors
    ]
    records += [("ranking", {p.score_key} - {config.cost_key}, str, []) for p in before if isinstance(p, InfoRanking)]
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
