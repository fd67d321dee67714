"""What a method's selector computes in a round, charged to the budget where ``env.joules_per_mac`` is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bippo_rllib import BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.policies.macs import central_policy_macs, policy_macs, training_macs
from envs import FederationConfig
from experiments.results.run_info import SelectorNetwork


def with_selector(federation: Mapping[str, Any], config: BippoConfig) -> dict[str, Any]:
    """``federation`` with the selector's MACs, if they are charged and were not given."""
    if not federation.get("joules_per_mac"):
        return dict(federation)
    num_clients = federation.get("num_clients", FederationConfig.num_clients)
    return {"selector_macs": selector_macs(config, num_clients), **federation}


def selector_macs(config: BippoConfig, num_clients: int) -> tuple[float, float]:
    """MACs of a round for each live client, and beside it for each client that trains.

    As the report counts them. A live client is one pass of actor and critic, or of the actor alone where the method
    learns without a critic; the central network's one pass is spread over all clients. A client that trains is a sample
    that the policy is trained on. Methods that train no policy have nothing to pass: what they compute, such as a
    ranking, is not counted.
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
    """Returns what the configuration says of the networks, or None if no policy is trained."""
    if config.policies_to_train == []:
        return None
    is_central = isinstance(config, CentralPPOConfig)
    return SelectorNetwork(is_central, config.num_epochs, config.hidden_size, config.use_critic)
