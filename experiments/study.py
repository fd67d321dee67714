"""What a study is: methods x seeds (x searched settings) on a scenario. Checked here, run by `tune_run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.provenance import RunInfo
from experiments.scenarios import Scenario
from experiments.settings import check_federation_keys, example_value, sampling_domain, split_settings

if TYPE_CHECKING:
    from experiments.placement import Placement


@dataclass(frozen=True)
class TrialStart:
    """A trial to run: from the start, or from the checkpoint at `resume_from`."""

    method: str
    seed: int
    resume_from: str = ""

    @property
    def name(self) -> str:
        """Of its folder; in a search a number follows."""
        return f"{self.method}-seed{self.seed}"


@dataclass(frozen=True)
class Study:
    """What to run. `settings` and the keys of `search` are as in `--set` and `--search`; `results_dir` is absolute.

    `parallel_trials` is the number of trials side by side, None for one per core; `checkpoint_every` is in rounds;
    `execution` says who trains the clients: `executor`, `num_actors`, `cpus_per_actor`, `gpus_per_actor` of a
    `FederationConfig`; `starts` are the trials left of a study that is resumed, None for all.
    """

    scenario: Scenario
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    rounds: int
    results_dir: Path
    data_dir: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)
    num_samples: int = 1
    parallel_trials: int | None = None
    checkpoint_every: int = 10
    execution: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    starts: tuple[TrialStart, ...] | None = None

    @property
    def trial_starts(self) -> tuple[TrialStart, ...]:
        """What is to run: all methods x seeds, or what is left of a study that is resumed."""
        if self.starts is not None:
            return self.starts
        return tuple(TrialStart(method, seed) for method in self.methods for seed in self.seeds)

    @property
    def num_trials(self) -> int:
        return len(self.trial_starts) * self.num_samples

    @property
    def trial_names(self) -> list[str]:
        """Folder names of the trials; in a search each has a number behind it."""
        number = "-00000" if self.search else ""
        return [f"{start.name}{number}" for start in self.trial_starts]

    @property
    def federation(self) -> dict[str, Any]:
        """Keywords of `envs.parallel_env`, without what differs from trial to trial."""
        data_dir = {} if self.data_dir is None else {"data_dir": self.data_dir}
        return {**self.scenario.federation, **data_dir, **split_settings(self.settings)[1]}

    @property
    def run_info(self) -> RunInfo:
        """What run.json says about the study."""
        return RunInfo(
            scenario=self.scenario.name,
            target_accuracy=self.scenario.target_accuracy,
            rounds=self.rounds,
            federation=self.federation,
            methods=list(self.methods),
            seeds=list(self.seeds),
            settings=dict(self.settings),
            search=dict(self.search),
            num_samples=self.num_samples,
            command=self.command,
        )


def check_study(study: Study) -> None:
    """Find out everything that can be wrong before Ray starts: data, budget, settings. ValueError in one line."""
    import envs
    from envs.executors import check_device
    from experiments.placement import nodes_for, place
    from experiments.row_callback import TrialInfo
    from experiments.trial import bippo_config

    check_device(str(study.federation.get("device", "cpu")))
    fields = tuple(envs.FederationConfig.__dataclass_fields__)
    check_federation_keys(list(split_settings({**study.settings, **study.search})[1]), fields)
    examples = {key: example_value(sampling_domain(key, text)) for key, text in study.search.items()}
    settings = {**study.settings, **examples}
    for method in study.methods:
        info = TrialInfo(study.scenario.name, method, study.seeds[0])
        bippo_config(info, study.scenario.federation, settings, study.rounds).validate()
    federation = {**study.federation, **study.execution, **split_settings(examples)[1]}
    for seed in study.seeds:
        envs.parallel_env(**{**federation, "rounds": study.rounds, "seed": seed})
    place(study, nodes_for(study.parallel_trials))


def param_space(study: Study, placement: Placement) -> dict[str, Any]:
    """Tune's search space; `trial.config_of` turns one point of it into a BippoConfig."""
    from ray import tune

    return {
        "scenario": study.scenario.name,
        "trial": tune.grid_search([asdict(start) for start in study.trial_starts]),
        "rounds": study.rounds,
        "federation": {**study.federation, **placement.execution},
        "settings": split_settings(study.settings)[0],
        "search": {key: sampling_domain(key, text) for key, text in study.search.items()},
        "gpu_share": placement.gpu_share,
        "bundles": placement.bundles,
    }
