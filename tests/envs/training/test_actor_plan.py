"""Who trains, how many actors there are and how clients are spread over them: pure functions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.config import FederationConfig
from envs.settings.execution import Execution
from envs.training.actor_plan import ActorPlan, Resources, actor_plan, refusal
from envs.training.packing import evaluation_shares, pack


def test_longest_first():
    # 7 -> a, 5 -> b, 4 -> b (9), 3 -> a (10), 2 -> b (11).
    assert pack([3, 7, 4, 2, 5], 2) == [[0, 1], [2, 3, 4]]
    assert pack([1, 1], 3) == [[0], [1], []]
    assert pack([], 2) == [[], []]


@given(st.lists(st.integers(1, 50), max_size=7), st.integers(1, 3))
def test_packing_loses_nothing_and_is_at_most_4_3_of_the_best(loads, num_bins):
    packed = pack(loads, num_bins)
    assert sorted(itertools.chain(*packed)) == list(range(len(loads))) and len(packed) == num_bins
    best = min(
        max(sum(load for load, place in zip(loads, places, strict=True) if place == b) for b in range(num_bins))
        for places in itertools.product(range(num_bins), repeat=len(loads))
    )
    assert 3 * max(sum(loads[item] for item in items) for items in packed) <= 4 * best


@given(st.data(), st.integers(1, 4))
def test_shares_hold_every_client_once_and_places_lead_back_to_the_order_asked_for(data, num_workers):
    sizes = tuple(data.draw(st.lists(st.integers(0, 700), min_size=1, max_size=12)))
    clients = tuple(data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True, min_size=1)))
    shares = evaluation_shares(clients, sizes, num_workers)
    assert len(shares.groups) == num_workers
    done = [client for groups in shares.groups for group in groups for client in group]
    assert [clients[place] for place in shares.places] == done and sorted(done) == sorted(clients)
    # The groups, which decide the bits of the results, do not depend on the number of workers.
    groups = sorted(group for share in shares.groups for group in share)
    assert groups == sorted(evaluation_shares(clients, sizes, 1).groups[0])
    assert all(len(group) == 1 or sum(sizes[client] for client in group) <= 500 for group in groups)


@pytest.mark.parametrize(
    ("settings", "has", "side_by_side", "plan"),
    [
        ({}, (8, 0), 1, None),
        ({"executor": "serial"}, (8, 2), 1, None),
        ({"num_actors": 3}, (8, 0), 1, None),  # auto: no GPU
        ({"device": "cuda:0"}, (8, 1), 1, None),  # auto: the user's choice
        ({"executor": "ray"}, (8, 0), 1, (2, 1.0, 0.0)),
        ({"executor": "ray", "num_actors": 3, "cpus_per_actor": 0.5}, (8, 0), 1, (3, 0.5, 0.0)),
        ({}, (8, 2), 1, (2, 1.0, 1.0)),
        ({}, (8, 4), 2, (2, 1.0, 1.0)),
        ({}, (8, 1), 3, (1, 1.0, 1 / 3)),
        ({}, (8, 2), 3, (1, 1.0, 0.5)),  # 2/3 of a GPU, rounded down
        ({"num_actors": 4}, (8, 2), 1, (4, 1.0, 0.5)),
        ({"num_actors": 1}, (8, 8), 1, (1, 1.0, 1.0)),  # a model uses one GPU
        ({"gpus_per_actor": 0.25}, (8, 1), 1, (4, 1.0, 0.25)),
        ({"executor": "ray", "gpus_per_actor": 0}, (8, 4), 1, (2, 1.0, 0.0)),
    ],
)
def test_plans(settings, has, side_by_side, plan):
    expected = None if plan is None else ActorPlan(*plan)
    assert actor_plan(Execution(**settings), Resources(*has), side_by_side) == expected


def test_what_does_not_fit_is_refused_with_what_it_needs_and_what_there_is():
    plan = ActorPlan(3, 1.0, 0.5)
    assert plan.bundles == [{"CPU": 1.0, "GPU": 0.5}] * 3
    assert refusal(plan, [Resources(3, 2)], "the cluster") is None
    assert refusal(plan, [Resources(2, 1), Resources(1, 1)], "the cluster") is None
    message = refusal(plan, [Resources(8, 1)], "the cluster")
    assert "need 3 CPUs and 1.5 GPUs = 3 x (1 CPU and 0.5 GPUs), the cluster has 8 CPUs and 1 GPU" in message
    # Enough in all, but the cores are on one node and the GPUs on the other.
    assert "has 9 CPUs and 4 GPUs on 2 nodes" in refusal(plan, [Resources(8, 0), Resources(1, 4)], "the cluster")
    # 0.1 + 0.1 + 0.1 is more than 0.3 in floating point.
    assert refusal(ActorPlan(3, 0.1, 0.0), [Resources(0.3)], "the cluster") is None


OF_ACTORS = ("num_actors", "cpus_per_actor", "gpus_per_actor")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executor": "rays"}, "auto, serial, ray"),
        ({"num_actors": 0}, "num_actors is 0"),
        ({"cpus_per_actor": 0}, "cpus_per_actor is 0"),
        ({"gpus_per_actor": 1.5}, "gpus_per_actor is 1.5"),
        ({"gpus_per_actor": float("nan")}, "gpus_per_actor is nan"),
        ({"gpus_per_actor": float("inf")}, "gpus_per_actor is inf"),
        *(({"executor": "serial", name: 2}, f"{name} is 2; executor='serial' has no actors") for name in OF_ACTORS),
        ({"executor": "ray", "device": "cuda:0"}, "device"),
        ({"on_client_failure": "ignore"}, "raise, drop"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        FederationConfig(**settings)
