"""Flower's own strategies and wrappers inside the budgeted one."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from flower_nodes import Nodes, run, selector, weight
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy as fl
from flwr.supercore.privacy_accounting import NeighboringRelation, PrivacyConfig, SamplingMethod

from bippo_rllib import Reward
from bippo_rllib.federated.flower import BudgetedStrategy

ALL_J, SOME_J = 9.0, 3.0
MULTIPLIER, NORM = 1.5, 0.8

STRATEGIES = {
    "FedAvg": fl.FedAvg,
    "FedProx": lambda: fl.FedProx(proximal_mu=0.1),
    "FedMedian": fl.FedMedian,
    "FedTrimmedAvg": lambda: fl.FedTrimmedAvg(beta=0.2),
    "QFedAvg": lambda: fl.QFedAvg(client_learning_rate=0.1),
    "Krum": lambda: fl.Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: fl.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2),
    "Bulyan": lambda: fl.Bulyan(num_malicious_nodes=0),
    "FedAvgM": lambda: fl.FedAvgM(server_momentum=0.9),
    "FedAdam": fl.FedAdam,
    "FedYogi": fl.FedYogi,
    "FedAdagrad": fl.FedAdagrad,
}
ON_SERVER = ("FedAvgM", "FedAdam", "FedYogi", "FedAdagrad")
FIXED = {
    "server": fl.DifferentialPrivacyServerSideFixedClipping,
    "client": fl.DifferentialPrivacyClientSideFixedClipping,
}
ADAPTIVE = {
    "server": fl.DifferentialPrivacyServerSideAdaptiveClipping,
    "client": fl.DifferentialPrivacyClientSideAdaptiveClipping,
}

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def budgeted(strategy, budget_j=SOME_J, **settings):
    return BudgetedStrategy(strategy, selector(), budget_j, **settings)


@pytest.mark.parametrize("name", STRATEGIES)
def test_learning_from_effects_leaves_the_model_as_it_is_without(name):
    """From round to round, with the clients of a round given: moments, replies and the model before are untouched."""
    models = [
        weight(run(budgeted(STRATEGIES[name](), ALL_J, learn=learn), Nodes(), start=0.31).arrays)
        for learn in (None, "effects")
    ]
    assert models[0] == pytest.approx(models[1], abs=1e-12) and np.isfinite(models[0]) and models[0] != 0.31


@pytest.mark.parametrize("name", STRATEGIES)
def test_effects_are_those_of_the_models_that_the_strategy_averages_without_each(name):
    """The average of FedAdam and its like is FedAvg's, whatever step of their optimiser follows."""
    averaging = fl.FedAvg if name in ON_SERVER else STRATEGIES[name]
    strategy, nodes = budgeted(STRATEGIES[name](), ALL_J, learn="effects"), Nodes()
    run(strategy, nodes, rounds=1)
    found = {record["client"]: record["effect"] for record in strategy.history if record["round"] == 1}
    accuracy = np.clip(weight(run(budgeted(averaging(), ALL_J), Nodes(), rounds=1).arrays), 0, 1)
    for client in range(6):
        others = Nodes()
        others.failing = {client}
        without = np.clip(weight(run(budgeted(averaging(), ALL_J), others, rounds=1).arrays), 0, 1)
        assert found[f"client_{client:03d}"] == pytest.approx(accuracy - without)
    # Once before the round and after it, and once for each that is left out; the optimiser's average is another model.
    assert nodes.evaluations == 2 + 6 + (name in ON_SERVER)


@pytest.mark.parametrize("budget_j", [1.0, 2.0, 3.0, ALL_J])
@pytest.mark.parametrize("name", STRATEGIES)
def test_shapley_effects_add_up_to_what_the_average_changed(name, budget_j):
    strategy, nodes = BudgetedStrategy(STRATEGIES[name](), selector(reward=Reward("shapley")), budget_j), Nodes()
    result = run(strategy, nodes, rounds=1, start=0.31)
    effects = [record["effect"] for record in strategy.history if record["effect"] is not None]
    trained = sorted(nodes.trained())
    averaging = fl.FedAvg if name in ON_SERVER else STRATEGIES[name]
    alone = Nodes()
    alone.failing = set(range(6)) - set(trained)
    after = np.clip(weight(run(budgeted(averaging(), ALL_J), alone, rounds=1, start=0.31).arrays), 0, 1)
    if name == "Bulyan" and len(trained) < 3:  # it needs three replies
        assert effects == [] and weight(result.arrays) == 0.31
    else:
        assert len(effects) == len(trained) and sum(effects) == pytest.approx(after - 0.31)
        models = {1: 0, 2: 2, 3: 6}.get(len(trained), 2 * (len(trained) - 1))
        assert nodes.evaluations <= 2 + models + (name in ON_SERVER)


class Wrapper(fl.FedAvg):
    """A custom strategy around another one."""

    def __init__(self, strategy):
        super().__init__()
        self.strategy = strategy


def locked():
    strategy = fl.FedAvg()
    strategy.lock = threading.Lock()
    return strategy


@pytest.mark.parametrize(
    ("make", "settings", "text"),
    [
        (lambda: fl.FedAvg(fraction_train=0.5), {}, "FedAvg has fraction_train=0.5"),
        (lambda: fl.FedAdam(fraction_evaluate=0.5), {}, "FedAdam has fraction_evaluate=0.5"),
        (lambda: FIXED["server"](fl.FedAvg(fraction_train=0.5), 1, 1, 3), {}, "FedAvg has fraction_train=0.5"),
        (fl.FedXgbCyclic, {}, "FedXgbCyclic"),
        *((lambda m=m: m(fl.FedAvg(), 1, 1, 3), {"learn": "effects"}, m.__name__) for m in FIXED.values()),
        *((lambda m=m: m(fl.FedAvg(), 0.1, 6), {"learn": "effects"}, m.__name__) for m in ADAPTIVE.values()),
        *((lambda n=n: Wrapper(STRATEGIES[n]()), {"learn": "effects"}, f"{n} .*Wrapper") for n in ON_SERVER),
        (locked, {"learn": "effects"}, "FedAvg cannot be copied .TypeError: .*learn='accuracies' or None"),
    ],
)
def test_what_cannot_be_combined_is_refused_by_name_before_it_starts(make, settings, text):
    with pytest.raises(ValueError, match=text) as raised:
        budgeted(make(), **settings)
    assert "\n" not in str(raised.value)
    if make is locked or "Wrapper" in text:
        budgeted(make(), learn="accuracies")
        budgeted(Wrapper(fl.FedProx()), learn="effects")


def test_a_wrapper_around_the_budgeted_strategy_is_refused_before_anything_is_trained():
    """Its noise would be for another number of clients than are selected."""
    nodes = Nodes()
    with pytest.raises(ValueError, match="inside another strategy"):
        run(FIXED["server"](budgeted(fl.FedAvg()), 1.0, 1.0, 2), nodes)
    assert nodes.sent == []


class ManyWeights(Nodes):
    """Each training adds the same to all of many weights, so that what differs between them is noise."""

    def train(self, message, client):
        update = np.full(20_000, 0.001 * (client + 1))
        arrays = ArrayRecord({"w": Array(message.content["arrays"]["w"].numpy() + update)})
        metrics = MetricRecord({"num-examples": 10, "norm_bit": client % 2})
        return Message(RecordDict({"a": arrays, "m": metrics}), reply_to=message)


def rounds_of(strategy, budgets_j, nodes):
    """Changes the budget before each round; yields the clients that trained and the change of the model."""
    before, strategy.budget_j = np.full(20_000, 0.25), budgets_j[0]
    configure, aggregate = strategy.configure_train, strategy.aggregate_train
    found = []

    def configure_train(server_round, *args):
        strategy.budget_j = budgets_j[server_round - 1]
        return configure(server_round, *args)

    def aggregate_train(*args):
        arrays, metrics = aggregate(*args)
        found.append(SimpleNamespace(trained=metrics["num-selected"], arrays=arrays, norm=clipping_norm(strategy)))
        return arrays, metrics

    strategy.configure_train, strategy.aggregate_train = configure_train, aggregate_train
    strategy.start(nodes, ArrayRecord({"w": Array(before)}), num_rounds=len(budgets_j))
    for one in found:
        after = one.arrays["w"].numpy() if one.arrays is not None else before
        one.noise, before = np.std(after - before), after
    return found


def clipping_norm(strategy):
    return strategy.strategy.clipping_norm


@pytest.mark.parametrize("side", FIXED)
@pytest.mark.parametrize("num_sampled_clients", [1, 6])
def test_fixed_clipping_adds_the_noise_of_the_clients_that_trained(side, num_sampled_clients):
    """Noise of multiplier times norm on the sum is that divided by their number on the mean."""
    np.random.seed(0)
    wrapper = FIXED[side](fl.FedAvg(), MULTIPLIER, NORM, num_sampled_clients)
    rounds = rounds_of(budgeted(wrapper), [1.0, 3.0, 9.0, 2.0], ManyWeights())
    counts = [one.trained for one in rounds]
    assert counts[0] == 1 and counts[2] == 6 and 1 < counts[1] < 6
    for one in rounds:
        assert one.noise == pytest.approx(MULTIPLIER * NORM / one.trained, rel=0.03)


@pytest.mark.parametrize("side", ADAPTIVE)
@pytest.mark.parametrize("num_sampled_clients", [3, 6])
def test_adaptive_clipping_adds_the_noise_of_the_clients_that_trained(side, num_sampled_clients):
    """Its own multiplier, from which the noise on the count of clipped clients is taken off, stays as it was made."""
    np.random.seed(0)
    wrapper = ADAPTIVE[side](fl.FedAvg(), MULTIPLIER, num_sampled_clients, 0.5, clipped_count_stddev=1.0)
    multiplier = (MULTIPLIER**-2 - (2 * 1.0) ** -2) ** -0.5
    assert wrapper.noise_multiplier == pytest.approx(multiplier)
    for one in rounds_of(budgeted(wrapper), [1.0, 3.0, 9.0, 2.0], ManyWeights()):
        assert one.noise == pytest.approx(multiplier * one.norm / one.trained, rel=0.03)
    assert wrapper.noise_multiplier == pytest.approx(multiplier) and wrapper.clipped_count_stddev == 1.0


@pytest.mark.parametrize("make", [*FIXED.values(), *ADAPTIVE.values()])
def test_private_rounds_survive_failures_and_rounds_of_nobody(make, caplog):
    """Flower's wrappers skip a round in which a training fails, and divide by the number of replies."""

    class Failing(ManyWeights):
        def send_and_receive(self, messages, timeout=None):
            messages = list(messages)
            if messages and messages[0].metadata.message_type == "train":
                self.rounds = getattr(self, "rounds", 0) + 1
                self.failing = {0, 1, 2, 3, 4, 5} if self.rounds == 1 else set()
                if self.rounds == 2:
                    return []
            return super().send_and_receive(messages, timeout)

    norm = (NORM,) if make in FIXED.values() else ()
    rounds = rounds_of(budgeted(make(fl.FedAvg(), 0.1, *norm, 6)), [9.0, 9.0, 0.5, 9.0], Failing())
    assert [one.arrays is None for one in rounds] == [True, True, True, False]
    assert [one.trained for one in rounds] == [6, 6, 0, 6]
    assert "round 1 made no model: 0 of 6 clients trained" in caplog.text


class Accountant:
    """As Flower's, whose backend is an extra of it: remembers the events, and has a budget of so many releases."""

    def __init__(self, releases):
        relation, sampling = NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
        self.config = PrivacyConfig(1e-5, 6, relation, sampling, max_epsilon=1.0)
        self.releases, self.events = releases, []

    def compose(self, event, count=1):
        self.events.append(event)

    def would_exceed(self, event, max_epsilon=None, count=1):
        return len(self.events) + count > self.releases

    def get_privacy_spent(self, delta=None):
        return SimpleNamespace(epsilon=len(self.events) / self.releases, delta=1e-5, num_releases=len(self.events))


@pytest.mark.parametrize("side", FIXED)
def test_an_accountant_counts_every_round_and_ends_the_training_but_not_the_run(side, caplog):
    accountant = Accountant(releases=3)
    wrapper = FIXED[side](fl.FedAvg(), MULTIPLIER, NORM, 2, accountant=accountant)
    strategy = budgeted(wrapper)
    rounds = rounds_of(strategy, [1.0, 0.5, 9.0, 3.0, 9.0], ManyWeights())
    assert [one.arrays is None for one in rounds] == [False, True, False, False, True]
    assert len(accountant.events) == 3 and rounds[4].trained == 0
    assert {event.noise_multiplier for event in accountant.events} == {MULTIPLIER}
    assert "round 5 trains no client: The next private release would exceed max_epsilon" in caplog.text
    assert "sends nothing to" not in caplog.text
    for one in rounds[:1] + rounds[2:4]:
        assert one.noise == pytest.approx(MULTIPLIER * NORM / one.trained, rel=0.03)
