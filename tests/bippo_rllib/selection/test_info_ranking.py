"""Rankings by an info key: hand-computed selections, candidate draws, both runners, checkpoints, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_episode import Episode
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.core.columns import Columns
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig, BudgetSampler, BudgetSamplerConnector
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.connector_columns import SUGGESTION
from bippo_rllib.selection.info_ranking import InfoRanking, draw_candidates

NAMES = ["ann", "bob", "cat", "dan", "eve"]
LOSSES = [0.9, 2.5, 1.4, 3.0, 0.2]
ACCURACIES = [0.7, 0.1, 0.4, 0.5, 0.9]
COSTS = [2.0, 3.0, 2.0, 4.0, 1.0]

# Made once: RLlib's constructor of a connector walks the whole stack.
GREEDY = BudgetSamplerConnector(BudgetSampler("greedy", seed=0))
RANKINGS = {
    (highest, count): InfoRanking(highest_first=highest, candidates=count)
    for highest in (True, False)
    for count in (None, 9)
}


def infos_of(budget=6.0, names=NAMES, losses=LOSSES, accuracies=ACCURACIES, costs=COSTS, sizes=None):
    sizes = [10] * len(names) if sizes is None else sizes
    keys = ("loss", "accuracy", "cost", "num_samples")
    return {
        name: {**dict(zip(keys, values, strict=True)), "budget": budget}
        for name, *values in zip(names, losses, accuracies, costs, sizes, strict=True)
    }


def columns_of(infos):
    keys = [("episode", name, name) for name in infos]
    return {
        SUGGESTION: {key: [np.float32(0.5)] for key in keys},
        Columns.ACTION_LOGP: {key: [np.float32(math.log(0.25))] for key in keys},
    }


def selection(ranking, infos):
    """The batch after ranking and sampler, and who was selected."""
    batch = columns_of(infos)
    for connector in (ranking, GREEDY):
        batch = connector(rl_module=None, batch=batch, episodes=[Episode(infos)], explore=True)
    return batch, {key[1] for key, (action,) in batch[Columns.ACTIONS].items() if action == 1}


@pytest.mark.parametrize(
    ("ranking", "selected"),
    [
        # Losses fall from dan (cost 4) over bob (3, no longer fits into 6) to cat (2): 4 + 2 = 6, nothing is left.
        (InfoRanking(score_key="loss"), {"dan", "cat"}),
        # Accuracies rise from bob (3) over cat (2) to dan (4, does not fit), ann (2, neither), eve (1): 3 + 2 + 1 = 6.
        (InfoRanking(score_key="accuracy", highest_first=False), {"bob", "cat", "eve"}),
    ],
)
def test_hand_computed_selections(ranking, selected):
    assert selection(ranking, infos_of())[1] == selected


@settings(max_examples=100)
@given(st.data(), st.booleans(), st.sampled_from([None, 9]))
def test_relabelling_the_clients_relabels_the_selection(data, highest, candidates):
    size = data.draw(st.integers(1, 9))
    floats = st.floats(0.0, 10.0)
    losses = data.draw(st.lists(floats, min_size=size, max_size=size, unique=True))
    costs = data.draw(st.lists(floats, min_size=size, max_size=size))
    budget = data.draw(st.floats(0.0, 30.0))
    relabelled = data.draw(st.permutations(range(size)))

    def selected(names):
        infos = infos_of(budget, names, losses, losses, costs, [1] * size)
        return selection(RANKINGS[highest, candidates], dict(sorted(infos.items())))[1]

    before = selected([f"client_{i}" for i in range(size)])
    after = selected([f"client_{relabelled[i]}" for i in range(size)])
    assert after == {f"client_{relabelled[int(name[-1])]}" for name in before}


def test_ties_are_drawn():
    infos = infos_of(1.0, losses=[2.0] * 5, costs=[1.0] * 5)
    assert set().union(*(selection(RANKINGS[True, None], infos)[1] for _ in range(60))) == set(NAMES)


def test_only_candidates_are_selected_and_the_highest_losses_among_them():
    infos = infos_of(budget=100.0)
    for seed in range(12):
        drawn = set(draw_candidates(np.full(5, 10.0), 3, np.random.default_rng(seed)).tolist())
        assert selection(InfoRanking(candidates=3, seed=seed), infos)[1] == {NAMES[i] for i in drawn}
        best = max(drawn, key=lambda i: LOSSES[i])
        cheap = {name: {**info, "cost": 1.0, "budget": 1.0} for name, info in infos.items()}
        assert selection(InfoRanking(candidates=3, seed=seed), cheap)[1] == {NAMES[best]}


def test_candidates_are_drawn_in_proportion_to_data_size_without_replacement():
    # Sizes 1, 2, 3, two draws. P(the last is drawn) = 1/2 + 1/6 * 3/5 + 1/3 * 3/4 = 0.85; of the first, 1/6 + 1/3 * 1/4
    # + 1/2 * 1/3 = 0.41667; of the second the rest to 2: 0.73333.
    rng = np.random.default_rng(0)
    counts = np.zeros(3)
    for _ in range(4000):
        drawn = draw_candidates(np.array([1.0, 2.0, 3.0]), 2, rng)
        assert len(set(drawn.tolist())) == 2
        counts[drawn] += 1
    assert np.abs(counts / 4000 - [0.41667, 0.73333, 0.85]).max() < 0.03


@pytest.mark.parametrize(
    ("sizes", "count", "drawn"), [([1.0, 0.0, 2.0], 3, {0, 2}), ([0.0, 0.0], 1, set()), ([5.0], 6, {0}), ([], 2, set())]
)
def test_no_more_candidates_than_clients_with_data(sizes, count, drawn):
    assert set(draw_candidates(np.array(sizes), count, np.random.default_rng(0)).tolist()) == drawn


def test_log_probs_are_the_policys_own_whatever_the_scores():
    batch, selected = selection(InfoRanking(candidates=2, seed=0), infos_of())
    assert 0 < len(selected) < 5
    assert batch[Columns.ACTION_LOGP] == columns_of(infos_of())[Columns.ACTION_LOGP]


@pytest.mark.parametrize(
    ("keywords", "change", "message"),
    [
        ({}, {"loss": None}, r"info of 'bob' has no 'loss' \(found: accuracy, budget.*score_key"),
        ({"candidates": 2}, {"num_samples": None}, "info of 'bob' has no 'num_samples' .*size_key"),
        ({}, {"loss": math.nan}, "info of 'bob' has 'loss' = nan.*score_key"),
        ({"highest_first": False}, {"loss": math.inf}, "info of 'bob' has 'loss' = inf"),
        ({"candidates": 2}, {"num_samples": -3}, r"data size is -3\.0"),
    ],
)
def test_infos_that_cannot_be_ranked_are_refused(keywords, change, message):
    infos = infos_of()
    infos["bob"] = {key: value for key, value in (infos["bob"] | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        InfoRanking(**keywords)(batch=columns_of(infos), episodes=[Episode(infos)])


class Scored(Workers):
    """Each worker's score and size change from step to step."""

    def _infos(self):
        infos = super()._infos()
        for place, (agent, info) in enumerate(infos.items()):
            infos[agent] = info | {"loss": (3 * place + self.time) % 7, "num_samples": 1 + place + self.time % 2}
        return infos


def config(candidates: int | None) -> BippoConfig:
    ranked = BippoConfig().environment(Scored, env_config={"num_workers": 7, "rounds": 6, "budget": 4.0})
    ranked = ranked.selection(sampler="greedy", score_key="loss", candidates=candidates)
    return ranked.multi_agent(policies_to_train=[]).debugging(seed=7, log_level="ERROR")


def test_the_pipeline_ranks_before_the_sampler_also_in_a_custom_pipeline(ray_session):
    def own(env, spaces):
        return [BudgetSamplerConnector(BudgetSampler("greedy"))]

    for each in (config(None), config(None).env_runners(module_to_env_connector=own)):
        algo = each.build_algo()
        names = [type(connector).__name__ for connector in algo.env_runner.module_to_env.connectors]
        assert names == ["InfoRanking", "BudgetSamplerConnector"]
        algo.train()
        # Losses (3 * place) % 7 = 0, 3, 6, 2, 5, 1, 4 at costs 1, 2, 1, 2, 1, 2, 1 and budget 4: 2, 4 and 6, then 0.
        assert [a[-1] for a, act in algo.parallel_env.last_actions.items() if act] == ["0", "2", "4", "6"]


def test_both_runners_and_a_restored_run_select_the_same(tmp_path, ray_session):
    arrays = config(3).build_algo()
    episodes = config(3).env_runners(env_runner_cls=EpisodeEnvRunner).build_algo()
    selections = set()
    for step in range(14):
        if step == 4:  # in mid-episode
            restored = Bippo.from_checkpoint(arrays.save_to_path(tmp_path / "checkpoint"))
        for algo in (arrays, episodes, *([restored] if step >= 4 else [])):
            algo.train()
            assert algo.parallel_env.last_actions == arrays.parallel_env.last_actions
        selections.add(tuple(arrays.parallel_env.last_actions.values()))
        assert 1 <= sum(arrays.parallel_env.last_actions.values()) <= 3
    assert len(selections) > 4


@pytest.mark.parametrize(("explore", "epsilon"), [({}, 0.5), ({"explore": None}, 0.5), ({"explore": False}, 1.0)])
def test_the_sampler_explores_unless_explore_is_false(explore, epsilon):
    sampler = BudgetSampler(epsilon_decay=0.5, seed=0)
    infos = infos_of()
    BudgetSamplerConnector(sampler)(rl_module=None, batch=columns_of(infos), episodes=[Episode(infos)], **explore)
    assert sampler.epsilon == epsilon
