"""The representativeness prior: golden values, histories, churn, both runners, checkpoints, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_episode import adjusted
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.representativeness import HALF_TRUST, Representativeness, representativeness, with_prior

SCORES = st.floats(-100.0, 100.0).map(lambda score: round(score, 3))


def test_golden_z_scores():
    # Means 0.5 and 0.4, so the distances are 0, 0.3, 0.3 in both rounds: v = (0, 0.3, 0.3) with mean 0.2 and population
    # variance (0.04 + 0.01 + 0.01) / 3 = 0.02, so z = 0.2 / sqrt(0.02) = sqrt(2) and -0.1 / sqrt(0.02) = -sqrt(1/2).
    record = Representativeness()
    for scores in ([0.5, 0.2, 0.8], [0.4, 0.7, 0.1]):
        z = record.update(["ann", "bob", "cat"], np.array(scores))
        assert z == pytest.approx([math.sqrt(2.0), -math.sqrt(0.5), -math.sqrt(0.5)])


def test_a_short_record_counts_less():
    # v = (0.1, 0.3, 0); the newcomer's record weighs c = (1 / 6) / (20 / 25) = 0.208333 of the others'. Mean 0.4 /
    # 2.208333 = 0.181132; variance (0.006582 + 0.014130 + c * 0.032809) / 2.208333 = 0.012474, deviation 0.111688.
    # z = (0.081132, -0.118868, c * 0.181132) / 0.111688.
    z = representativeness(np.array([0.2, 1.8, 0.0]), np.array([20, 20, 1]))
    assert z == pytest.approx([0.72642, -1.06429, 0.33787], abs=2e-5)


def test_golden_log_ratios():
    # v = (0.1, 0.2, 0.3) with mean 0.2; the distance 0 counts as a twentieth of the mean 0.2, exp(-3).
    z = representativeness(np.array([0.02, 0.08, 0.18]), np.array([2, 2, 2]), standardised=False)
    assert z == pytest.approx([math.log(2.0), 0.0, math.log(2.0 / 3.0)])
    z = representativeness(np.array([0.0, 0.32]), np.array([2, 2]), standardised=False)
    assert z == pytest.approx([3.0, math.log(0.5)])
    # A record of one report beside those of 20, as above: c = 0.208333, mean 0.181132; log(0.603774) and c * 3.
    z = representativeness(np.array([0.2, 1.8, 0.0]), np.array([20, 20, 1]), standardised=False)
    assert z == pytest.approx([math.log(1.81132), math.log(0.603774), 3.0 * 0.208333], abs=2e-5)


def test_clients_that_hardly_differ_are_hardly_told_apart_by_log_ratios():
    sums, counts = np.array([1.0, 1.01, 1.02]), np.array([9, 9, 9])
    assert np.abs(representativeness(sums, counts, standardised=False)).max() < 0.006
    assert np.abs(representativeness(sums, counts)).max() > 1.2


@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize(
    ("sums", "counts"),
    [([], []), ([0.4], [3]), ([0.2, 0.2], [2, 2]), ([0.0, 0.0], [5, 5]), ([0.0, 0.0], [0, 0]), ([0.0, 0.3], [0, 9])],
)
def test_clients_that_do_not_differ_are_neutral(sums, counts, standardised):
    assert representativeness(np.array(sums), np.array(counts), standardised).tolist() == [0.0] * len(sums)


def test_a_client_without_a_record_is_neutral_and_not_in_the_average():
    with_unknown = representativeness(np.array([0.2, 0.0, 1.8]), np.array([2, 0, 2]))
    assert with_unknown == pytest.approx([1.0, 0.0, -1.0])  # of two clients, one is a deviation above, one below


def z_of_history(history, live):
    """The same from all reports ever made, in plain Python."""
    distances = {client: [] for client in live}
    for reports in history:
        mean = sum(reports.values()) / len(reports)
        for client in set(reports) & set(live):
            distances[client].append((reports[client] - mean) ** 2)
    v = {client: math.sqrt(sum(each) / len(each)) for client, each in distances.items()}
    weight = {client: len(each) / (len(each) + HALF_TRUST) for client, each in distances.items()}
    total = sum(weight.values())
    mean = sum(weight[client] * v[client] for client in live) / total
    spread = math.sqrt(sum(weight[client] * (v[client] - mean) ** 2 for client in live) / total)
    if spread < 1e-9 * max(1.0, mean):
        return dict.fromkeys(live, 0.0)
    return {client: (mean - v[client]) / spread * weight[client] / max(weight.values()) for client in live}


@settings(max_examples=150)
@given(st.lists(st.dictionaries(st.sampled_from("abcdefg"), SCORES, min_size=1), min_size=1, max_size=12))
def test_running_sums_equal_the_history_through_churn(history):
    record = Representativeness()
    for step, reports in enumerate(history):
        z = record.update(list(reports), np.array(list(reports.values())))
        expected = z_of_history(history[: step + 1], list(reports))
        assert z == pytest.approx(list(expected.values()), abs=1e-6)


@settings(max_examples=100)
@given(
    st.lists(SCORES, min_size=4, max_size=4), st.sampled_from([1e-3, 2.0, 1e6]), st.floats(-10.0, 10.0), st.booleans()
)
def test_units_do_not_matter(scores, scale, shift, standardised):
    scores = np.array([*scores, 0.0, 50.0])  # two that differ
    both = scores, scale * (scores + shift)
    plain, scaled = (Representativeness().update(list("abcdef"), each, standardised) for each in both)
    assert scaled == pytest.approx(plain, abs=1e-6)


def test_golden_suggestions():
    # logit(0.5) = 0 and logit(0.2) = -1.38629; with weight 2 and z = 1, -0.5, 0: sigmoid(2) = 0.88080, sigmoid(-1) =
    # 0.26894, and 0.2 stays.
    suggestions, z = np.array([0.5, 0.5, 0.2, -math.inf]), np.array([1.0, -0.5, 0.0, 3.0])
    adjusted = with_prior(suggestions, z, weight=2.0, gain=1.0)
    assert adjusted == pytest.approx([0.88080, 0.26894, 0.2, -math.inf], abs=1e-5)
    # Gain 2 doubles the logits, 0 leaves the prior alone.
    assert with_prior(suggestions, 0 * z, weight=2.0, gain=2.0)[2] == pytest.approx(0.04 / (0.04 + 0.64))
    assert with_prior(suggestions, z, weight=-2.0, gain=0.0)[:3] == pytest.approx([0.11920, 0.73106, 0.5], abs=1e-5)


def test_policies_can_be_limited_to_lowering_a_clients_chances():
    suggestions = np.array([0.9, 0.2])
    z = np.array([0.5, 0.0])
    # 0.9 counts as 0.5: sigmoid(2 * 0.5) = 0.73106; 0.2 stays.
    assert with_prior(suggestions, z, weight=2.0, gain=1.0, only_lowers=True) == pytest.approx([0.73106, 0.2], abs=1e-5)


def test_no_suggestion_becomes_certain():
    extremes = with_prior(np.array([0.0, 1.0, 0.0, 1.0]), np.array([9.0, -9.0, -1e9, 1e9]), weight=2.0, gain=1.0)
    assert ((extremes > 0.0) & (extremes < 1.0)).all()
    assert extremes[0] > 0.5 > extremes[1]  # a certain actor does not silence the prior


def adjusted_by(prior, reports, suggestions):
    return adjusted(prior, {agent: {"quality": report} for agent, report in reports.items()}, suggestions)


def test_the_order_of_agents_does_not_matter():
    agents = [f"client_{i}" for i in range(7)]
    rng = np.random.default_rng(0)
    rounds = [({a: rng.random() for a in agents}, {a: rng.random() for a in agents}) for _ in range(5)]
    outcomes = []
    for order in (agents, agents[::-1], list(rng.permutation(agents))):
        prior = RepresentativenessPrior(key="quality")
        for reports, suggestions in rounds:
            last = adjusted_by(prior, {a: reports[a] for a in order}, {a: suggestions[a] for a in order})
        outcomes.append(last)
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_one_that_leaves_and_returns_keeps_its_record_and_a_joiner_starts_almost_neutral():
    prior = RepresentativenessPrior(key="quality", weight=1.0, client_of=policy_of)
    rng = np.random.default_rng(0)
    names = [f"client_{i:03d}" for i in range(6)]
    suggestions = dict.fromkeys(names, 0.5)
    for _ in range(40):  # client_000 swings, the others stay close to each other
        reports = {name: 0.5 + (0.4 if name == "client_000" else 0.02) * rng.standard_normal() for name in names}
        before = adjusted_by(prior, reports, suggestions)
    assert before["client_000"] < 0.15
    without = {name: report for name, report in reports.items() if name != "client_000"}
    for _ in range(5):
        adjusted_by(prior, without, dict.fromkeys(without, 0.5))
    state = prior.get_state()
    assert dict(zip(state["clients"], state["counts"], strict=True)) == {**dict.fromkeys(names, 45), "client_000": 40}
    back = {**without, "client_000#1": 0.5, "client_006": 0.0}
    after = adjusted_by(prior, back, dict.fromkeys(back, 0.5))
    assert after["client_000#1"] < 0.15
    assert abs(after["client_006"] - 0.5) < 0.12  # although its first report is further off than any other
    assert prior.get_state()["clients"] == [*names, "client_006"]


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"cost": 1.0}, r"info of 'bob' has no 'quality' \(found: cost\).*prior_key"),
        ({"quality": math.nan}, "info of 'bob' has 'quality' = nan.*prior_key"),
        ({"quality": -math.inf}, "info of 'bob' has 'quality' = -inf.*prior_key"),
    ],
)
def test_reports_that_are_missing_or_not_finite_are_one_clear_error(info, message):
    prior = RepresentativenessPrior(key="quality")
    with pytest.raises(ValueError, match=message) as error:
        adjusted(prior, {"ann": {"quality": 1.0}, "bob": info})
    assert "\n" not in str(error.value) and prior.get_state()["clients"] == []


@pytest.mark.parametrize("score", [1.5, -0.5, math.nan, math.inf])
def test_scores_that_are_no_probabilities_are_refused(score):
    with pytest.raises(ValueError, match=f"suggestion of 'bob' is {score}"):
        adjusted_by(RepresentativenessPrior(key="quality"), {"ann": 1.0, "bob": 1.0}, {"ann": 0.5, "bob": score})


class Reporting(Workers):
    """Worker i swings around the mean by i. With ``leaves_at``, worker_00 leaves then and returns two steps later."""

    def step(self, actions):
        outcome = super().step(actions)
        if self._leaves_at is not None and self.time == self._leaves_at + 2 and self.agents:
            self.agents.append("worker_00#1")
            outcome[0]["worker_00#1"] = np.ones(self._obs_dim, np.float32)
            outcome[4]["worker_00#1"] = self._infos()["worker_00#1"]
        return outcome

    def _infos(self):
        infos = super()._infos()
        for agent, info in infos.items():
            place = int(policy_of(agent)[-2:])
            infos[agent] = info | {"accuracy": 0.5 + 0.1 * place * math.cos(3 * place + self.time)}
        return infos


def config(base=BippoConfig, **keywords):
    environment = {"num_workers": 7, "rounds": 8, "budget": 4.0, **keywords}
    return base().environment(Reporting, env_config=environment).debugging(seed=7, log_level="ERROR")


BOTH = ["RepresentativenessPrior", "BudgetSamplerConnector"]


def built(config, connectors):
    algo = config.build_algo()
    assert [type(connector).__name__ for connector in algo.env_runner.module_to_env.connectors] == connectors
    return algo


def test_the_prior_alone_selects_what_a_hand_would(ray_session):
    algo = built(config().selection(sampler="greedy", prior_weight=1.0, prior_gain=0.0), BOTH)
    algo.env_runner.start_episode()
    history = []
    for _ in range(6):
        infos = algo.env_runner._episode.infos
        history.append({agent: info["accuracy"] for agent, info in infos.items()})
        z = z_of_history(history, list(infos))
        remaining, expected = 4.0, set()
        for agent in sorted(infos, key=lambda a: -z[a]):
            if infos[agent]["cost"] <= remaining:
                expected.add(agent)
                remaining -= infos[agent]["cost"]
        algo.train()
        assert {agent for agent, act in algo.parallel_env.last_actions.items() if act} == expected


def test_both_runners_and_a_restored_run_select_the_same_through_churn(tmp_path, ray_session):
    def both(**keywords):
        return config(leaves_at=2, **keywords).selection(sampler="odds", prior_weight=2.0).training(lr=0.01)

    arrays, episodes = both().build_algo(), both().env_runners(env_runner_cls=EpisodeEnvRunner).build_algo()
    selections = set()
    for step in range(18):
        if step in (3, 9):  # worker_00 has left; a new episode runs
            restored = Bippo.from_checkpoint(arrays.save_to_path(tmp_path / f"checkpoint_{step}"))
        for algo in (arrays, episodes, *([restored] if step >= 3 else [])):
            algo.train()
            assert algo.parallel_env.last_actions == arrays.parallel_env.last_actions
            assert algo.sampler.get_state() == arrays.sampler.get_state()
        selections.add(tuple(sorted(agent for agent, act in arrays.parallel_env.last_actions.items() if act)))
    assert len(selections) > 4
    states = [algo.env_runner.module_to_env.connectors[-2] for algo in (arrays, restored)]
    assert [type(connector) for connector in states] == [RepresentativenessPrior] * 2
    ours, theirs = (connector.get_state() for connector in states)
    assert ours["clients"] == theirs["clients"] == [f"worker_{i:02d}" for i in range(7)]
    # 18 steps; in each of the two whole episodes worker_00 was away for two.
    assert ours["counts"].tolist() == theirs["counts"].tolist() == [14, *[18] * 6]
    assert ours["sums"].tolist() == theirs["sums"].tolist()


def test_without_weight_there_is_no_connector_and_nothing_changes(ray_session):
    plain, off = (built(c, BOTH[1:]) for c in (config(), config().selection(prior_weight=0.0)))
    for _ in range(12):
        plain.train(), off.train()
        assert plain.parallel_env.last_actions == off.parallel_env.last_actions
    assert plain.bank.flat.equal(off.bank.flat)


def test_a_central_network_takes_it_too(ray_session):
    algo = built(config(CentralPPOConfig).selection(sampler="odds", prior_weight=-3.0, prior_gain=0.0), BOTH)
    for _ in range(10):
        algo.train()
        actions = algo.parallel_env.last_actions
        assert 0 < sum(act * (1.0 + int(agent[-1]) % 2) for agent, act in actions.items()) <= 4.0
    state = algo.env_runner.module_to_env.connectors[0].get_state()
    assert state["clients"] == [f"worker_{i:02d}" for i in range(7)]
