"""The configuration of a trial, a method on a scenario with a seed, and Tune's search space of a study's trials."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ray import tune
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list

import envs
from bippo_rllib import BippoConfig
from envs.config import only_read
from envs.dataset_defaults import absolute_data_dir
from experiments.custom_methods import find_callbacks, find_method
from experiments.results.setting_text import describe
from experiments.study.placement import Placement
from experiments.study.row_callback import RowCallback, TrialInfo
from experiments.study.scheduler import rungs
from experiments.study.selector_macs import with_selector
from experiments.study.settings import apply_settings, read_by_sampler, split_settings
from experiments.study.study import Study


def bippo_config(
    info: TrialInfo,
    federation: Mapping[str, Any],
    settings: Mapping[str, Any],
    rounds: int,
    callbacks: Sequence[str] = (),
) -> BippoConfig:
    """Returns the configuration of one trial.

    Args:
        info: Scenario, method as in ``--methods`` and seed, for every row.
        federation: Keywords of ``envs.parallel_env`` without ``rounds`` and ``seed``.
        settings: Algorithm settings, and federation settings under ``env.``, that override the scenario's.
        rounds: FL rounds.
        callbacks: Classes of RLlib callbacks as ``MODULE:NAME``. They see the numbers of the round's row.

    Raises:
        ValueError: For a setting that does not exist, is of the wrong kind or contradicts the method, and for callbacks
            that cannot be imported.
    """
    algorithm, overrides = split_settings(settings)
    method = find_method(info.method)
    keywords = {**method.with_requirements({**federation, **overrides}), "rounds": rounds, "seed": info.seed}
    config = method.make_config()
    config.debugging(seed=info.seed, log_sys_usage=False)  # each trial's end would wait up to 0.7 s for its thread
    rows = functools.partial(RowCallback, info)
    custom = [] if config.callbacks_class is RLlibCallback else force_list(config.callbacks_class)
    config.callbacks([rows, *custom, *map(find_callbacks, callbacks)])
    apply_settings(config, read_by_sampler(config.sampler, method.settings_taken(algorithm)))
    # Once, since RLlib merges what is given later into what was given before.
    return config.environment(env=envs.parallel_env, env_config=only_read(with_selector(keywords, config)))


def study_config(study: Study, method: str, draw: Mapping[str, Any]) -> BippoConfig:
    """Returns the configuration of a method's trials with one draw of the study's settings, for the first seed."""
    info = TrialInfo(study.scenario.name, method, study.seeds[0])
    federation = study.scenario.federation_for(study.rounds)
    return bippo_config(info, federation, {**study.settings, **draw}, study.rounds, study.callbacks)


def param_space(study: Study, placement: Placement) -> dict[str, Any]:
    """Returns Tune's search space, a grid over the trials; ``config_of`` makes a BippoConfig of one of its points."""
    return {
        "scenario": study.scenario.name,
        "trial": tune.grid_search([asdict(trial) for trial in study.trials]),
        "rounds": study.rounds,
        "federation": {
            **study.federation,
            **asdict(placement.execution),
            "data_dir": absolute_data_dir(study.data_dir),  # trials have another environment and working directory
        },
        "settings": split_settings(study.settings)[0],
        "callbacks": study.callbacks,
        "shown": dict(study.settings),
        "checkpoint_every": study.checkpoint_every,
        "rungs": rungs(study.rounds) if study.search else [],
        "working_dir": os.getcwd(),
        "gpu_share": placement.gpu_share,
        "bundles": placement.bundles,
    }


def config_of(space: Mapping[str, Any]) -> BippoConfig:
    """Returns the configuration of one point of ``param_space``."""
    trial = space["trial"]
    searched = dict(trial["search"])
    info = TrialInfo(space["scenario"], trial["method"], int(trial["seed"]), describe(searched))
    settings = {**space["settings"], **searched}
    config = bippo_config(info, space["federation"], settings, space["rounds"], space["callbacks"])
    return config.env_resources(bundles=space["bundles"])
