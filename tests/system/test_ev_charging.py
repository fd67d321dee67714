"""The example of charging cars: agents follow acnportal's simulator, and a short comparison keeps to the limit."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from source_tree import ROOT

pytest.importorskip("acnportal.acnsim", reason="extra 'examples' is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    return lambda name: importlib.import_module(name)


def test_a_car_that_left_is_no_agent_and_the_next_at_its_station_has_its_policy(example):
    env = example("ev_charging").ChargingDays()
    observations, _ = env.reset(seed=3)
    cars = set(observations)
    while env.agents:
        stations = [agent.partition("#")[0] for agent in env.agents]
        assert len(set(stations)) == len(stations) and set(stations) <= set(env.possible_agents)
        acted = env.agents
        observations, rewards, _, truncated, infos = env.step(dict.fromkeys(acted, 0))
        assert rewards.keys() == truncated.keys() == set(acted) and observations.keys() == set(acted) | set(env.agents)
        assert env.agents == list(infos) and all(truncated[agent] == (agent not in infos) for agent in acted)
        assert all(env.observation_space(agent).contains(row) for agent, row in observations.items())
        cars |= set(env.agents)
    assert env.shares == [0.0]  # nobody charged
    assert len(cars) == len(example("ev_charging").cars_of(3000)) > len({car.partition("#")[0] for car in cars})


def test_all_but_uncontrolled_charging_keep_to_the_limit(example, ray_session, tmp_path, capsys):
    compare = example("ev_charging_compare")
    arguments = ["--seeds", "1", "--days", "1", "--test-days", "1", "--figure", str(tmp_path / "day.png")]
    sims = compare.main(arguments)
    delivered, _, peak_kw, over_h = np.transpose([compare.numbers(runs[0]) for runs in sims.values()])
    assert [name for name, hours in zip(sims, over_h, strict=True) if hours] == ["uncontrolled"]
    assert delivered[0] == pytest.approx(1.0, abs=1e-3) and peak_kw[0] > 100.0 > 70.01 > peak_kw[1:].max()
    assert (delivered[1:] > 0.5).all() and (delivered[1:] <= 1.0 + 1e-9).all()
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(sims) == 10
    assert (tmp_path / "day.png").stat().st_size > 10_000
