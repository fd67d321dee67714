"""TensorBoard logs of a study: tags in groups, and each trial's settings in the HPARAMS tab while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.tune.logger import TBXLoggerCallback
from tensorboardX.summary import hparams

from experiments.own_methods import method_name
from experiments.study.logger_tags import grouped
from experiments.study.trial_start import TrialStart

#: Columns of the HPARAMS tab beside the settings.
HPARAM_METRICS = ("accuracy/mean_accuracy", "accuracy/mean_accuracy_last_10", "energy/energy_total_j")


class TensorBoardLogger(TBXLoggerCallback):
    """Tune's logger, which else puts all tags into one group and each trial's whole configuration into HPARAMS.

    Args:
        scenario: Name of the study's scenario.
        settings: What all trials were given, as in ``--set``.
    """

    def __init__(self, scenario: str, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self._scenario, self._settings = scenario, settings

    def log_trial_start(self, trial: Any) -> None:
        """Says which settings the trial has."""
        super().log_trial_start(trial)
        experiment, start, _ = self._hparams(trial)
        self._add(trial, experiment, start)

    def log_trial_result(self, iteration: int, trial: Any, result: Mapping[str, Any]) -> None:
        """Adds a point to every curve; the step is the round."""
        if trial not in self._trial_writer:
            self.log_trial_start(trial)
        for tag, value in grouped(result).items():
            self._trial_writer[trial].add_scalar(tag, value, global_step=result["round"])
        self._trial_writer[trial].flush()

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Says that the trial has ended, and closes its file."""
        if trial in self._trial_writer and not failed:
            self._add(trial, self._hparams(trial)[-1])
        super().log_trial_end(trial, failed)

    def _hparams(self, trial: Any) -> tuple[Any, Any, Any]:
        start = TrialStart(**trial.config["trial"])
        settings = {key: _plain(value) for key, value in {**self._settings, **start.search}.items()}
        named = {"scenario": self._scenario, "method": method_name(start.method), "seed": start.seed}
        return hparams({**named, **settings}, dict.fromkeys(HPARAM_METRICS))

    def _add(self, trial: Any, *summaries: Any) -> None:
        for summary in summaries:
            self._trial_writer[trial].file_writer.add_summary(summary)


def _plain(value: Any) -> bool | int | float | str:
    """What the tab can hold."""
    return value if isinstance(value, bool | int | float | str) else str(value)
