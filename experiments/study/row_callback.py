"""The RLlib callback that writes a trial's rows and adds their numbers to the result."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback

from experiments.results.row_schema import COLUMN_NAMES, NUMBER_COLUMNS
from experiments.results.rows import WINDOW, RowWriter
from experiments.study.client_kinds import kinds_of
from experiments.study.logger_tags import TRAINED_BY_KIND

if TYPE_CHECKING:
    from bippo_rllib import Bippo

#: What a search compares; the accuracy of one round varies too much.
ROLLING_ACCURACY = "mean_accuracy_last_10"
#: Whether no round can follow, since all have been run or all clients have left.
EPISODE_OVER = "episode_over"


@dataclass(frozen=True)
class TrialInfo:
    """Columns that are the same in all rows of a trial."""

    scenario: str
    method: str
    seed: int
    setting: str = ""


class RowCallback(RLlibCallback):
    """Joins the environment's last round, the sampler's epsilon and the timings into one row per ``train()``.

    Rows go to the trial's folder; outside of Tune, as with a restored checkpoint, nothing is written, but the result
    still gets the numbers.
    """

    def __init__(self, info: TrialInfo) -> None:
        super().__init__()
        self._info = info
        self._writer: RowWriter | None = None
        self._trial = ""
        self._kinds: Mapping[str, frozenset[int]] = {}
        self._env_seconds = 0.0
        self._epsilon = math.nan
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._energy_total_j = 0.0

    def on_algorithm_init(self, *, algorithm: Bippo, **kwargs: Any) -> None:
        """Overrides RLlib's to find the trial's folder, the kinds of clients and the first round's epsilon."""
        self._kinds = kinds_of(algorithm.parallel_env)
        storage = algorithm._storage
        if storage is not None:
            self._trial = str(storage.trial_dir_name)
            self._writer = RowWriter(Path(storage.trial_fs_path))
        self.on_policies_loaded(algorithm)

    def on_policies_loaded(self, algorithm: Bippo) -> None:
        """Reads the first round's epsilon again, and the environment's time, since round 0 may have been run."""
        self._epsilon = _epsilon(algorithm)
        self._env_seconds = algorithm.env_seconds

    def on_resumed(self, algorithm: Bippo) -> None:
        """Continues after the round of a restored checkpoint."""
        self.on_policies_loaded(algorithm)
        if self._writer is not None:
            earlier = self._writer.continue_after(algorithm.parallel_env.last_round.round)
            self._recent.extend(row["mean_accuracy"] for row in earlier)
            self._energy_total_j = sum(row["energy_j"] for row in earlier)

    def on_train_result(self, *, algorithm: Bippo, result: dict[str, Any], **kwargs: Any) -> None:
        """Overrides RLlib's to write the round of this ``train()``."""
        row = self._row(algorithm, float(result["time_this_iter_s"]))
        if self._writer is not None:
            self._writer.append(row)
        self._recent.append(row["mean_accuracy"])
        self._energy_total_j += row["energy_j"]
        result.update({name: row[name] for name in NUMBER_COLUMNS if row[name] is not None})
        result[EPISODE_OVER] = not algorithm.parallel_env.agents
        result[ROLLING_ACCURACY] = float(np.mean(self._recent))
        result["energy_total_j"] = self._energy_total_j
        if 0.0 < row["budget_j"] < math.inf:
            result["budget_share"] = row["energy_j"] / row["budget_j"]
        result[TRAINED_BY_KIND] = {name: len(kind.intersection(row["trained"])) for name, kind in self._kinds.items()}
        result["warmup_energy_j"] = float(algorithm.parallel_env.warmup_energy_j)
        result["meter_warnings"] = list(algorithm.parallel_env.last_round.meter_warnings)

    def flush(self) -> None:
        """Writes rows that are not on disk yet."""
        if self._writer is not None:
            self._writer.flush()

    def _row(self, algorithm: Bippo, train_seconds: float) -> dict[str, Any]:
        last = algorithm.parallel_env.last_round
        in_env, self._env_seconds = algorithm.env_seconds - self._env_seconds, algorithm.env_seconds
        epsilon, self._epsilon = self._epsilon, _epsilon(algorithm)
        scored = algorithm.env_runner.sampler_connector().latest  # agents sort as their clients do
        return {
            **vars(self._info),
            **{name: value for name, value in vars(last).items() if name in COLUMN_NAMES},
            "trial": self._trial,
            "num_clients": len(last.clients),
            "num_trained": len(last.trained),
            "suggestions": None if scored is None else scored.suggestions,
            "scores": None if scored is None else scored.scores,
            "epsilon": epsilon,
            "rl_seconds": max(0.0, train_seconds - in_env),
        }


def _epsilon(algorithm: Bippo) -> float:
    sampler = algorithm.sampler
    return float(sampler.epsilon) if sampler.strategy == "epsilon_greedy" else math.nan
