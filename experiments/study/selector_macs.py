"""Multiply-accumulates (MACs) of a method's selector in a round, charged where ``env.joules_per_mac`` is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bippo_rllib import BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.policies.macs import central_policy_macs, policy_macs, training_macs
from envs import FederationConfig
from experiments.results.run_info import SelectorNetwork


def with_selector(federation: Mapping[str, Any], config: BippoConfig) -> dict[str, Any]:
    """Returns ``federation`` with the selector's MACs, if they are charged and were not given."""
    if not federation.get("joules_per_mac"):
        return dict(federation)
    num_clients = federation.get("num_clients", FederationConfig.num_clients)
    return {"selector_macs": selector_macs(config, num_clients), **federation}


def selector_macs(config: BippoConfig, num_clients: int) -> tuple[float, float]:
    """Returns the MACs of a round for each live client, and in addition for each client that trains.

    They are counted as in the report. Each live client takes one pass of actor and critic, or of the actor alone where
    the method learns without a critic; the one pass of a central network is divided by the clients. Each client that
    trains is one sample that the policy is trained on. Methods without policies count as 0, as do rankings.
    """
    network = network_of(config)
    if network is None:
        return 0.0, 0.0
    if network.central:
        macs = central_policy_macs(num_clients, network.hidden_size, network.critic)
        per_live = macs / num_clients
    else:
        macs = policy_macs(hidden_size=network.hidden_size, critic=network.critic)
        per_live = float(macs)
    return per_live, float(training_macs(macs, samples=1, epochs=network.epochs))


def network_of(config: BippoConfig) -> SelectorNetwork | None:
    """Returns the networks of the configuration, or None if no policy is trained."""
    if config.policies_to_train == []:
        return None
    is_central = isinstance(config, CentralPPOConfig)
    return SelectorNetwork(is_central, config.num_epochs, config.hidden_size, config.use_critic)
