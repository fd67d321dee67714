"""ASHA for a search over several methods and seeds."""

from __future__ import annotations

from typing import Any

from ray.tune.schedulers import ASHAScheduler, FIFOScheduler


class SeedwiseASHA(FIFOScheduler):
    """One ASHA per method and seed, so that a setting only ever competes with other settings on the same data.

    Seeds draw different samples, and some are harder: with one ASHA for all, it would stop the hard seeds, not the bad
    settings.

    Args:
        metric: Key of the result to compare; higher is better.
        max_rounds: Rounds of a full trial.
    """

    def __init__(self, metric: str, max_rounds: int) -> None:
        super().__init__()
        self._arguments: dict[str, Any] = {
            "time_attr": "training_iteration",
            "metric": metric,
            "mode": "max",
            "max_t": max_rounds,
            "grace_period": max(1, min(20, max_rounds // 4)),
            "reduction_factor": 2,
        }
        self._groups: dict[tuple[str, int], ASHAScheduler] = {}

    def _group(self, trial: Any) -> ASHAScheduler:
        key = (trial.config["trial"]["method"], trial.config["trial"]["seed"])
        if key not in self._groups:
            self._groups[key] = ASHAScheduler(**self._arguments)
        return self._groups[key]

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        self._group(trial).on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return self._group(trial).on_trial_result(tune_controller, trial, result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        self._group(trial).on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        self._group(trial).on_trial_remove(tune_controller, trial)
