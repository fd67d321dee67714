"""Configurations whose selection is a connector: Oort, and the oracle that methods are compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib import BippoConfig, BudgetSamplerConnector
from bippo_rllib.baselines.oort_connector import OortRanking
from bippo_rllib.policies.agents import environment_in, policy_of
from bippo_rllib.selection.generator import seed_for
from bippo_rllib.selection.suggestion_connector import SuggestionConnector
from envs import FederatedRounds
from envs.agent_ids import client_name, client_names
from envs.config import config_from


class SelectorConfig(BippoConfig):
    """A configuration that trains nothing and adds a connector before the budget sampler.

    Attributes:
        connector_before: Class of the connector that it is inserted before.
    """

    connector_before: type[ConnectorV2] = BudgetSamplerConnector

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.multi_agent(policies_to_train=[])

    def new_connector(self, env: FederatedRounds) -> ConnectorV2:
        """Makes the connector, for an environment."""
        raise NotImplementedError

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        """``BippoConfig``'s pipeline with the connector."""
        pipeline = super().build_module_to_env_connector(env=env, spaces=spaces)
        pipeline.insert_before(self.connector_before, self.new_connector(environment_in(env).parallel_env))
        return pipeline


class OortConfig(SelectorConfig):
    """Oort, see ``OortRanking``; the environment must report losses."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="greedy")

    def new_connector(self, env: FederatedRounds) -> ConnectorV2:
        """Oort's order of the clients."""
        return OortRanking(client_of=policy_of, seed=seed_for(self.seed, "oort"))


class OracleConfig(SelectorConfig):
    """Draws at random among clients that are known to be good.

    No method, since nobody knows them beforehand: it shows how much there is to win. ``oracle_clients`` are their
    numbers; None for those that hold every label there is and have no wrong ones.
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="random")
        self.oracle_clients: Sequence[int] | int | None = None

    def validate(self) -> None:
        """As ``BippoConfig.validate``, and refuses clients that there are not."""
        super().validate()
        num_clients = config_from(**self.env_config).num_clients
        for client in self._asked or ():
            if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < num_clients:
                raise ValueError(
                    f"oracle_clients is {self.oracle_clients!r}; it must hold numbers of clients, from 0 to "
                    f"{num_clients - 1}, such as oracle_clients=0,1,2"
                )

    def new_connector(self, env: FederatedRounds) -> ConnectorV2:
        """The mask of all other clients.

        Raises:
            ValueError: If none was named and there is no good one.
        """
        clients = good_clients(env) if self._asked is None else self._asked
        if not clients:
            raise ValueError("no client holds every label and clean data; name some with --set oracle_clients=0,1,2")
        names = client_names(env.config.num_clients)
        return OnlyClients([names[client] for client in clients])

    @property
    def _asked(self) -> Sequence[Any] | None:
        asked = self.oracle_clients
        return asked if asked is None or isinstance(asked, list | tuple) else (asked,)


def good_clients(env: FederatedRounds) -> list[int]:
    """Clients that hold every label there is, and whose labels are right."""
    labels = set().union(*env.labels)
    wrong = env.config.mislabelled_clients
    return [client for client, own in enumerate(env.labels) if set(own) == labels and client not in wrong]


class OnlyClients(SuggestionConnector):
    """Makes every client but some no candidate; writes ``participation_suggestion``."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self._names = frozenset(names)

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """The suggestions, and ``-inf`` for the others, the sampler's "not a candidate"."""
        return np.where([client_name(agent_id) in self._names for agent_id in agents], suggestions, -np.inf)
