"""Configurations of methods that select by a connector and train nothing: published ones, and an oracle as a bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib import BippoConfig, BudgetSamplerConnector
from bippo_rllib.baselines.bandit_connector import BanditSuggestions
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.even_suggestions import EvenSuggestions
from bippo_rllib.baselines.fedcor import FedCor
from bippo_rllib.baselines.greedyfed import GreedyFed
from bippo_rllib.baselines.hics import HiCS
from bippo_rllib.baselines.label_balance import LabelBalance
from bippo_rllib.baselines.norm_filter import NormFilter
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.baselines.rule import Rule
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.method_settings import METHOD_SETTINGS
from bippo_rllib.policies.agents import environment_in, policy_of
from bippo_rllib.selection.generator import seed_for
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.suggestion_connector import SuggestionConnector
from bippo_rllib.selection.update_matching import UpdateMatching
from bippo_rllib.setting_error import SettingError
from envs import FederatedRounds
from envs.agent_ids import client_name, client_names
from envs.config import config_from

if TYPE_CHECKING:
    from typing_extensions import Self


class SelectorConfig(BippoConfig):
    """Trains nothing, and adds a connector to ``BippoConfig``'s pipeline.

    Attributes:
        connector_before: Class of the connector that it is inserted before.
    """

    connector_before: type[ConnectorV2] = BudgetSamplerConnector

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.multi_agent(policies_to_train=[])

    def new_connector(self, env: FederatedRounds) -> ConnectorV2:
        """Returns the connector for an environment."""
        raise NotImplementedError

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        """Overrides ``BippoConfig``'s to insert the connector."""
        pipeline = super().build_module_to_env_connector(env=env, spaces=spaces)
        pipeline.insert_before(self.connector_before, self.new_connector(environment_in(env).parallel_env))
        return pipeline


#: Rules by method, each made from the configuration, the environment and the seed of its draws.
RULES: Mapping[str, Callable[[Any, FederatedRounds, Sequence[int] | None], Rule]] = {
    "oort": lambda config, env, seed: Oort(seed_for(config.seed, "oort")),
    "cyclic": lambda config, env, seed: Cyclic(seed),
    "greedyfed": lambda config, env, seed: GreedyFed(seed=seed),
    "hics": lambda config, env, seed: HiCS(env.config.rounds, seed=seed),  # odds become equal by the last round
    "fedcor": lambda config, env, seed: FedCor(seed=seed),
    "normfilter": lambda config, env, seed: NormFilter(two_sided=config.two_sided, seed=seed),
}


class RuleConfig(SelectorConfig):
    """Selects clients in the order of a rule, as many as the budget allows."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="greedy")
        self._rule = ""

    def follow(self, rule: str) -> Self:
        """Sets the name of the rule in ``RULES``."""
        return self._set(_rule=rule)

    def new_connector(self, env: FederatedRounds) -> RuleConnector:
        """Returns the rule's connector."""
        return RuleConnector(RULES[self._rule](self, env, seed_for(self.seed, "rule")), client_of=policy_of)


class NormFilterConfig(RuleConfig):
    """``RuleConfig`` with the argument of ``NormFilter``."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.follow("normfilter")
        self.two_sided = False


class FedCBSConfig(SelectorConfig):
    """Fed-CBS, see ``LabelBalance``; the environment must report label counts."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="odds", set_score=LabelBalance)

    def new_connector(self, env: FederatedRounds) -> EvenSuggestions:
        """Returns even odds, so that the set score alone decides."""
        return EvenSuggestions()


class BanditConfig(SelectorConfig):
    """``bippo-s`` with a bandit instead of PPO, see ``BanditSuggestions``; needs the same rewards and reports."""

    connector_before = RepresentativenessPrior

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        # Its logits have a gain of their own.
        self.selection(**{**METHOD_SETTINGS["bippo-s"].selection, "prior_gain": 1.0}, set_score=UpdateMatching)

    def new_connector(self, env: FederatedRounds) -> BanditSuggestions:
        """Returns suggestions from rewards."""
        return BanditSuggestions(client_of=policy_of)


class OracleConfig(SelectorConfig):
    """Draws at random among clients that are known to be good: a bound for methods, none of which can know them.

    Attributes:
        oracle_clients: Numbers of these clients; None for all that hold every label and have no wrong ones.
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="random")
        self.oracle_clients: Sequence[int] | int | None = None

    def validate(self) -> None:
        """Overrides ``BippoConfig``'s to refuse clients that do not exist."""
        super().validate()
        num_clients = config_from(**self.env_config).num_clients
        for client in self._clients or ():
            if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < num_clients:
                numbers = f"it must hold numbers of clients, from 0 to {num_clients - 1}, such as oracle_clients=0,1,2"
                raise SettingError("oracle_clients", self.oracle_clients, numbers)

    def new_connector(self, env: FederatedRounds) -> ConnectorV2:
        """Returns the mask of all other clients.

        Raises:
            ValueError: If no client was named and none is good.
        """
        clients = good_clients(env) if self._clients is None else self._clients
        if not clients:
            raise ValueError("no client holds every label and clean data; name some with --set oracle_clients=0,1,2")
        names = client_names(env.config.num_clients)
        return OnlyClients([names[client] for client in clients])

    @property
    def _clients(self) -> Sequence[Any] | None:
        clients = self.oracle_clients
        return clients if clients is None or isinstance(clients, list | tuple) else (clients,)


def good_clients(env: FederatedRounds) -> list[int]:
    """Returns the clients that hold every label and have no wrong ones."""
    labels = set().union(*env.labels)
    wrong = env.config.mislabelled_clients
    return [client for client, held in enumerate(env.labels) if set(held) == labels and client not in wrong]


class OnlyClients(SuggestionConnector):
    """Lets only some clients be candidates; writes ``participation_suggestion``."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._names = frozenset(names)

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns the suggestions, with ``-inf``, which is no candidate for the sampler, for all other clients."""
        return np.where([client_name(agent_id) in self._names for agent_id in agents], suggestions, -np.inf)
