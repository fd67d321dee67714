"""A Flower strategy whose rounds are trained by the clients that a ``ClientSelector`` picks under a budget."""

from bippo_rllib.federated.flower.node_reports import client_of
from bippo_rllib.federated.flower.strategy import BudgetedStrategy

__all__ = ["BudgetedStrategy", "client_of"]
