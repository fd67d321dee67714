"""One trial: a method on a scenario with a seed, as a point of Tune's search space, a BippoConfig and a Trainable."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from ray import tune
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list

import envs
from bippo_rllib import Bippo, BippoConfig
from envs.dataset_defaults import absolute_data_dir
from experiments.own_methods import find_method
from experiments.results.checkpoints import write_manifest
from experiments.results.setting_text import describe
from experiments.study.placement import Placement
from experiments.study.row_callback import RowCallback, TrialInfo
from experiments.study.selector_macs import with_selector
from experiments.study.settings import apply_settings, split_settings
from experiments.study.study import Study
from experiments.study.transfer import check_unchanged


def bippo_config(
    info: TrialInfo, federation: Mapping[str, Any], settings: Mapping[str, Any], rounds: int
) -> BippoConfig:
    """The configuration of one trial.

    Args:
        info: Scenario, method as in ``--methods`` and seed; they go into every row, a user's own method by its short
            name.
        federation: Keywords of ``envs.parallel_env`` without ``rounds`` and ``seed``.
        settings: Algorithm settings, and federation settings under ``env.``, that override the scenario's.
        rounds: FL rounds.

    Raises:
        ValueError: For a setting that does not exist, is of the wrong kind or contradicts the method.
    """
    algorithm, overrides = split_settings(settings)
    method = find_method(info.method)
    keywords = {**method.with_requirements({**federation, **overrides}), "rounds": rounds, "seed": info.seed}
    config = method.make_config()
    config.environment(env=envs.parallel_env, env_config=keywords).debugging(seed=info.seed)
    ours = functools.partial(RowCallback, replace(info, method=method.name))
    own = [] if config.callbacks_class is RLlibCallback else force_list(config.callbacks_class)
    config.callbacks([*own, ours] if own else ours)
    apply_settings(config, method.settings_taken(algorithm))
    return config.environment(env_config=with_selector(keywords, config)) if "joules_per_mac" in keywords else config


def study_config(study: Study, method: str, draw: Mapping[str, Any]) -> BippoConfig:
    """The configuration of a method's trials with one draw of the study's settings, for the first seed."""
    info = TrialInfo(study.scenario.name, method, study.seeds[0])
    federation = study.scenario.federation_for(study.rounds)
    return bippo_config(info, federation, {**study.settings, **draw}, study.rounds)


def param_space(study: Study, placement: Placement) -> dict[str, Any]:
    """Tune's search space, a grid over the trials; ``config_of`` turns one point of it into a BippoConfig."""
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
        "working_dir": os.getcwd(),
        "gpu_share": placement.gpu_share,
        "bundles": placement.bundles,
    }


def config_of(space: Mapping[str, Any]) -> BippoConfig:
    """The configuration of one point of ``param_space``."""
    trial = space["trial"]
    searched = dict(trial["search"])
    info = TrialInfo(space["scenario"], trial["method"], int(trial["seed"]), describe(searched))
    config = bippo_config(info, space["federation"], {**space["settings"], **searched}, space["rounds"])
    return config.env_resources(bundles=space["bundles"])


class StudyTrial(Bippo):
    """Bippo for a point of a study's search space: one torch thread, and rows that survive a kill."""

    _error: Exception | None = None

    def __init__(self, config: Any = None, **kwargs: Any) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
        # Tune gives a point of the search space; a checkpoint that is restored gives RLlib's own dict.
        is_point = isinstance(config, dict) and "scenario" in config
        if is_point and config["working_dir"] not in sys.path:
            sys.path.append(config["working_dir"])  # where a user's own methods, models and data sets may lie
        super().__init__(config_of(config) if is_point else config, **kwargs)
        trial = config["trial"] if is_point else {}
        if trial.get("resume_from"):
            self.restore_from_path(trial["resume_from"])
            for callback in self._row_callbacks():
                callback.on_resumed(self)
        elif trial.get("init_from"):
            check_unchanged(trial["init_from"], trial["init_sha256"])
            self.load_policies(trial["init_from"], epsilon={**config["settings"], **trial["search"]}.get("epsilon"))
            for callback in self._row_callbacks():
                callback.on_policies_loaded(self)

    def reset(self, new_config: dict[str, Any], storage: Any = None) -> bool:
        """Begins another trial in this process, whose imports take longer than many a trial.

        Not ``reset_config``: after that, Tune sets to 0 what a resumed trial has restored. What goes wrong is raised in
        the first step: after an error in here, Tune would keep one process more than there are trials.
        """
        self.stop()
        try:
            StudyTrial.__init__(self, new_config, storage=storage)
        except Exception as error:
            self._error = error
        return True

    def step(self) -> Any:
        """One round."""
        if self._error is not None:
            raise self._error
        return super().step()

    @classmethod
    def default_resource_request(cls, config: Any) -> tune.PlacementGroupFactory:
        """A bundle for each FL actor; without actors one core, and the trial's share of a GPU if it trains on one.

        A trial with actors takes no core of its own: it waits while they train, and they while it learns.
        """
        if config["bundles"]:
            return tune.PlacementGroupFactory([{}, *config["bundles"]])
        return tune.PlacementGroupFactory([{"CPU": 1.0, "GPU": float(config["gpu_share"])}])

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Rows are at least as new as any checkpoint, and a half-written one is detected."""
        self.flush_rows()
        super().save_checkpoint(checkpoint_dir)
        env = self.parallel_env
        write_manifest(
            Path(checkpoint_dir), env.last_round.round, over=not env.agents and env.last_round.round < env.config.rounds
        )

    def cleanup(self) -> None:
        """The last rows, also of a trial that is stopped early."""
        self.flush_rows()
        super().cleanup()

    def flush_rows(self) -> None:
        """Writes rows that are not on disk yet."""
        for callback in self._row_callbacks():
            callback.flush()

    def _row_callbacks(self) -> list[RowCallback]:
        return [callback for callback in force_list(self.callbacks) if isinstance(callback, RowCallback)]
