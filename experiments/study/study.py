"""A study: methods x seeds (x searched settings) on a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from envs.imports import OWN_CODE_FIELDS, is_import
from envs.settings.execution import Execution
from experiments.results.run_info import PolicySource, RunInfo
from experiments.results.setting_text import as_text
from experiments.scenarios import Scenario
from experiments.study.search import drawn_settings
from experiments.study.settings import ENV_PREFIX, split_settings


def study_name(scenario: Scenario, settings: Mapping[str, Any]) -> str:
    """Returns what results folders are named after: custom data, or else the scenario."""
    return str(settings.get(f"{ENV_PREFIX}dataset", scenario.name)).replace(":", ".")


@dataclass(frozen=True)
class Trial:
    """A trial of a study, and where it starts from."""

    method: str  #: As in ``--methods``.
    seed: int  #: Seed of all random numbers.
    resume_from: str = ""  #: Checkpoint to go on from; empty to start from the beginning.
    number: int | None = None  #: Distinguishes the trials of a search; None outside one.
    search: Mapping[str, Any] = field(default_factory=dict)  #: The settings drawn for this trial.
    init_from: str = ""  #: Checkpoint whose policies it starts with; empty for fresh ones.
    init_sha256: str = ""  #: Hash of those policies.

    @property
    def name(self) -> str:
        """Name of the trial's folder."""
        number = "" if self.number is None else f"-{self.number:05d}"
        return f"{self.method.replace(':', '.')}-seed{self.seed}{number}"


@dataclass(frozen=True)
class Study:
    """Everything that defines a study, and how it is run."""

    scenario: Scenario  #: Data, clients, devices, budget.
    methods: tuple[str, ...]  #: As in ``--methods``.
    seeds: tuple[int, ...]  #: Each is run with every method.
    rounds: int  #: FL rounds of a trial.
    results_dir: Path  #: An absolute path.
    data_dir: str | None = None  #: Where the data lies; None for ``$BIPPO_DATA``.
    settings: Mapping[str, Any] = field(default_factory=dict)  #: As in ``--set``.
    callbacks: tuple[str, ...] = ()  #: As in ``--callbacks``.
    search: Mapping[str, str] = field(default_factory=dict)  #: As in ``--search``.
    num_samples: int = 1  #: Settings to draw.
    parallel_trials: int | None = None  #: Trials side by side; None for one per core.
    checkpoint_every: int = 10  #: Rounds between checkpoints.
    loggers: tuple[str, ...] = ()  #: As in ``--logger``.
    execution: Execution = field(default_factory=Execution)  #: Who trains, as requested; see ``placed_execution``.
    command: str = ""  #: The command line.
    trials_left: tuple[Trial, ...] | None = None  #: Unfinished trials of a resumed study; None for a new one.
    init_from: str = ""  #: What ``--init-from`` named.
    #: Where each trial's policies come from, by the name of the trial outside a search.
    initial_policies: Mapping[str, PolicySource] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  #: Lines to print before a resumed or repeated study runs.
    recorded_draws: tuple[Mapping[str, Any], ...] | None = None  #: Of a resumed search; None to draw them.

    @cached_property
    def draws(self) -> tuple[Mapping[str, Any], ...]:
        """Settings of a search, each run with all methods and seeds; a single empty one without a search."""
        if self.recorded_draws is not None:
            return self.recorded_draws
        return drawn_settings(self.search, self.num_samples, self.seeds[0]) if self.search else ({},)

    @property
    def all_trials(self) -> tuple[Trial, ...]:
        """All trials of the study, each from its beginning."""
        cases = [(draw, method, seed) for draw in self.draws for method in self.methods for seed in self.seeds]
        return tuple(
            Trial(method, seed, number=number if self.search else None, search=draw, **self._policies(method, seed))
            for number, (draw, method, seed) in enumerate(cases)
        )

    def _policies(self, method: str, seed: int) -> dict[str, str]:
        source = self.initial_policies.get(Trial(method, seed).name)
        return {"init_from": source.checkpoint, "init_sha256": source.sha256} if source else {}

    @property
    def is_resumed(self) -> bool:
        """Whether the study resumes an earlier run."""
        return self.trials_left is not None

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Trials to run: all, or the unfinished ones of a resumed study."""
        return self.all_trials if self.trials_left is None else self.trials_left

    @property
    def federation(self) -> dict[str, Any]:
        """Keywords of ``envs.parallel_env`` that are the same in all trials."""
        data_dir = {} if self.data_dir is None else {"data_dir": self.data_dir}
        return {**self.scenario.federation_for(self.rounds), **data_dir, **split_settings(self.settings)[1]}

    @property
    def placed_execution(self) -> Execution:
        """Who trains, on the device that ``--set env.device`` names.

        Raises:
            ValueError: If the two contradict each other.
        """
        return replace(self.execution, device=self.federation.get("device", self.execution.device))

    @property
    def share_processes(self) -> bool:
        """Whether one process may run several trials.

        It may not where state may remain from one to the next: with custom code or ``torch.compile``.
        """
        return not self.custom_code and not any({**self.settings, **draw}.get("env.compile") for draw in self.draws)

    @property
    def custom_code(self) -> tuple[str, ...]:
        """The arguments that name custom code."""
        methods = [f"--methods {method}" for method in self.methods if is_import(method)]
        named = [(f"{ENV_PREFIX}{name}", draw) for draw in self.draws for name in OWN_CODE_FIELDS]
        settings = [(key, {**self.settings, **draw}.get(key)) for key, draw in named]
        callbacks = [f"--callbacks {name}" for name in self.callbacks]
        custom = [f"{key}={value}" for key, value in settings if is_import(value)]
        return tuple(dict.fromkeys([*methods, *custom, *callbacks]))

    @property
    def run_info(self) -> RunInfo:
        """The record of the study, for run.json."""
        return RunInfo(
            scenario=self.scenario.name,
            target_accuracy=self.scenario.target_accuracy,
            rounds=self.rounds,
            federation=self.federation,
            methods=list(self.methods),
            seeds=list(self.seeds),
            settings=dict(self.settings),
            callbacks=list(self.callbacks),
            search=dict(self.search),
            num_samples=self.num_samples,
            draws=as_text(self.draws) if self.search else [],
            command=self.command,
            init_from=self.init_from,
            init_policies=dict(self.initial_policies),
        )
