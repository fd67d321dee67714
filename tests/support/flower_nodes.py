"""A grid of pretended nodes for Flower's strategies, and a selector for them that needs no Ray."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict

from bippo_rllib import ClientSelector
from bippo_rllib.federated.rewards import Reward
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.representativeness import Prior

COSTS_J = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
#: What each node's training makes of the one weight; accuracy is the weight, cut to [0, 1].
TRAINED_WEIGHT = [0.1, 0.9, 0.3, 0.5, 0.7, 0.2]
NAMES = [f"client_{client:03d}" for client in range(6)]
#: The next evaluations, counted from 0 in ``Nodes.evaluations``, that nobody answers.
NEVER: frozenset[int] = frozenset()


class Nodes:
    """A grid of six nodes with the ids 100 to 105.

    Attributes:
        sent: Kind and client of each message.
        calls: Kind, number of messages and time-out of each call.
        configs: What was sent with each evaluation, by call.
        silent: Clients that answer nothing.
        failing: Clients whose training fails.
        lost: Evaluations that nobody answers, by their number.
        odd: By client, what it replies to evaluations in place of the right metrics; None takes a key out.
        evaluations: How many evaluations there were.
    """

    def __init__(self, lost=NEVER):
        self.sent, self.calls, self.configs = [], [], []
        self.silent, self.failing, self.odd = set(), set(), {}
        self.lost, self.evaluations = lost, 0

    def get_node_ids(self):
        return [100 + client for client in range(6)]

    def send_and_receive(self, messages, timeout=None):
        messages = list(messages)
        kind = messages[0].metadata.message_type if messages else "nothing"
        self.calls.append((kind, len(messages), timeout))
        replies = [self.reply(message) for message in messages]
        if kind == "evaluate":
            self.configs.append(messages[0].content["config"])
            self.evaluations += 1
            if self.evaluations - 1 in self.lost:
                return [error(message, "no network") for message in messages]
        return replies

    def reply(self, message):
        client, kind = message.metadata.dst_node_id - 100, message.metadata.message_type
        self.sent.append((kind, client))
        if client in self.silent or (kind == "train" and client in self.failing):
            return error(message, "gone")
        return self.train(message, client) if kind == "train" else self.evaluate(message, client)

    def train(self, message, client):
        metrics = MetricRecord({"num-examples": 10, "train_loss": 0.5})
        return Message(RecordDict({"a": weights(TRAINED_WEIGHT[client]), "m": metrics}), reply_to=message)

    def evaluate(self, message, client):
        weight = float(message.content["arrays"]["w"].numpy().flat[0])
        metrics = {
            "accuracy": min(1.0, max(0.0, weight)),
            "num-train-examples": 10,
            "num-examples": 5,
            "client-id": client,
            "cost-j": COSTS_J[client],
        }
        metrics |= self.odd.get(client, {})
        record = MetricRecord({key: value for key, value in metrics.items() if value is not None})
        return Message(RecordDict({"m": record}), reply_to=message)

    def trained(self):
        return [client for kind, client in self.sent if kind == "train"]


def error(message, reason):
    return Message(Error(code=0, reason=reason), reply_to=message)


def weights(value):
    return ArrayRecord({"w": Array(np.array([value]))})


def weight(arrays):
    return float(arrays["w"].numpy()[0])


def selector(names=NAMES, *, prior=None, size=5, seed=0, reward=Reward(), matching=None):  # noqa: B008
    """Policies that are drawn anew; picked in proportion to their odds, and by update matching if it is given."""
    stack = PolicyStack()
    stack.initialize(ParameterLayout(size, 16), seed)
    stack.add_policies(list(names))
    trainer, sampler = PolicyTrainer(stack, 1), BudgetSampler("odds", seed=1, set_weight=2.0)
    prior = None if prior is None else Prior(prior, 2.0, 1.0)
    high = np.ones(size, np.float32)
    return ClientSelector(SelectorParts(trainer, sampler, high, prior=prior, reward=reward, matching=matching))


def run(strategy, nodes, rounds=3, start=0.25, **settings):
    return strategy.start(nodes, weights(start), num_rounds=rounds, **settings)


def note_selections(strategy, monkeypatch):
    """Returns the reports of each selection from now on."""
    seen, select = [], strategy.selector.select
    monkeypatch.setattr(strategy.selector, "select", lambda r, budget_j: (seen.append(r), select(r, budget_j))[1])
    return seen
