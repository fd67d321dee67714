"""Algorithms whose selectors are deployed, and what their clients report."""

from __future__ import annotations

from quick_federation import TINY

import envs
from bippo_rllib import ClientReport
from experiments.methods import METHODS


def federation(method: str):
    """An algorithm on digits whose first round may begin."""
    keywords = METHODS[method].with_requirements({**TINY, "rounds": 40, "seed": 7})
    config = METHODS[method].make_config().environment(envs.parallel_env, env_config=keywords)
    algo = config.debugging(seed=7, log_level="ERROR").build_algo()
    algo.env_runner.start_episode()
    return algo


def reports_of(algo, **more):
    """What the clients of the running episode report."""
    infos = algo.env_runner._episode.get_infos(-1)
    return {
        a: ClientReport(
            accuracy=i["accuracy"],
            num_samples=i["num_samples"],
            cost_j=i["cost"],
            loss=i.get("loss"),
            **{"update_profile": i.get("update_profile")} | more.get(a, {}),
        )
        for a, i in infos.items()
    }


def budget_of(algo):
    return next(iter(algo.env_runner._episode.get_infos(-1).values()))["budget"]


def observed(algo):
    episode = algo.env_runner._episode
    costs = {agent: info["cost"] for agent, info in episode.get_infos(-1).items()}
    return {a: {"observation": o, "cost_j": costs[a]} for a, o in episode.get_observations(-1).items()}
