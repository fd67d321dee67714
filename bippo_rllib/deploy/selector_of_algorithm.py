"""The selector inside a ``Bippo`` algorithm, as the file that its checkpoints hold. Needs RLlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.deploy.selector_file import SelectorParts, pack, pack_refusal
from bippo_rllib.learning.learner import BippoLearner
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.prior import RepresentativenessPrior


def selector_bytes(config: Any, learner: Any, pieces: Sequence[ConnectorV2], steps: int) -> bytes:
    """The file that ``ClientSelector.load`` reads; where no selector can do the same, one that says why.

    ``pieces`` are those of the module-to-env pipeline, ``steps`` the environment steps so far.
    """
    own = [piece for piece in pieces if not type(piece).__module__.startswith("ray.rllib.connectors.")]
    reason = _why_not(config, learner, own)
    if reason:
        return pack_refusal(f"{reason}, which takes RLlib; ClientSelector has policies, a prior and a budget sampler")
    *prior, sampler = own
    trained = [policy_id for policy_id in learner.bank.slots if learner.should_module_be_updated(policy_id)]
    return pack(
        SelectorParts(
            trainer=learner.trainer,
            sampler=sampler.sampler,
            observation_high=learner.bank.observation_space.high,
            settings=PPOSettings.of(config),
            prior=prior[0].prior if prior else None,
            trains=None if config.policies_to_train is None else trained,
            steps=steps,
        )
    )


def _why_not(config: Any, learner: Any, own: Sequence[ConnectorV2]) -> str:
    """What a selector lacks; nothing if it can select and learn as the algorithm does."""
    if not isinstance(learner, BippoLearner):
        return "one central network selects, tied to the clients it was trained with"
    if config._env_to_module_connector is not None:
        return "observations go through pieces of an env-to-module pipeline"
    kinds = [type(piece) for piece in own]
    if kinds not in ([BudgetSamplerConnector], [RepresentativenessPrior, BudgetSamplerConnector]):
        return f"the selection is a pipeline of {', '.join(kind.__name__ for kind in kinds)}"
    sampler = own[-1].sampler
    return "" if type(sampler) is BudgetSampler else f"the sampler is a {type(sampler).__name__}"
