"""What a study is: methods x seeds (x searched settings) on a scenario. Checked here, run by `tune_run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.provenance import RunInfo
from experiments.scenarios import Scenario
from experiments.settings import check_federation_keys, example_value, sampling_domain, split_settings
from experiments.transfer import PolicySource, check_fit


@dataclass(frozen=True)
class TrialStart:
    """A trial to run: from the start, or from the checkpoint at `resume_from`.

    From the start with the policies in the checkpoint at `init_from`, of that hash, if it is given.
    """

    method: str
    seed: int
    resume_from: str = ""
    init_from: str = ""
    init_sha256: str = ""

    @property
    def name(self) -> str:
        """Of its folder; in a search a number follows."""
        return f"{self.method}-seed{self.seed}"


@dataclass(frozen=True)
class Study:
    """What to run. `settings` and the keys of `search` are as in `--set` and `--search`; `results_dir` is absolute.

    `parallel_trials` is the number of trials side by side, None for one per core; `checkpoint_every` is in rounds;
    `starts` are the trials left of a study that is resumed, None for all. `init_from` is what `--init-from` named,
    `sources` the checkpoint it comes to for each trial, by the trial's name.
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
    command: str = ""
    starts: tuple[TrialStart, ...] | None = None
    init_from: str = ""
    sources: Mapping[str, PolicySource] = field(default_factory=dict)

    @property
    def trial_starts(self) -> tuple[TrialStart, ...]:
        """What is to run: all methods x seeds, or what is left of a study that is resumed."""
        if self.starts is not None:
            return self.starts
        return tuple(self._start(method, seed) for method in self.methods for seed in self.seeds)

    def _start(self, method: str, seed: int) -> TrialStart:
        start = TrialStart(method, seed)
        source = self.sources.get(start.name)
        return start if source is None else replace(start, init_from=source.checkpoint, init_sha256=source.sha256)

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
        return {**self.scenario.federation_for(self.rounds), **data_dir, **split_settings(self.settings)[1]}

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
            init_from=self.init_from,
            init_policies={name: asdict(source) for name, source in self.sources.items()},
        )


def check_study(study: Study) -> None:
    """Find out everything that can be wrong before Ray starts: data, budget, settings. ValueError in one line."""
    import envs
    from envs.executors import check_device
    from experiments.row_callback import TrialInfo
    from experiments.trial import bippo_config

    check_device(str(study.federation.get("device", "cpu")))
    fields = tuple(envs.FederationConfig.__dataclass_fields__)
    check_federation_keys(list(split_settings({**study.settings, **study.search})[1]), fields)
    examples = {key: example_value(sampling_domain(key, text)) for key, text in study.search.items()}
    settings = {**study.settings, **examples}
    configs = {}
    for method in study.methods:
        info = TrialInfo(study.scenario.name, method, study.seeds[0])
        configs[method] = bippo_config(info, study.scenario.federation_for(study.rounds), settings, study.rounds)
        configs[method].validate()
    searched = split_settings(examples)[1]
    for seed in study.seeds:
        env = envs.parallel_env(**{**study.federation, **searched, "rounds": study.rounds, "seed": seed})
    for start in study.trial_starts:
        if start.init_from and study.starts is None:  # a resumed study was checked when it was started
            check_fit(start.init_from, configs[start.method], env)


def param_space(study: Study, gpu_share: float) -> dict[str, Any]:
    """Tune's search space; `trial.config_of` turns one point of it into a BippoConfig."""
    from ray import tune

    return {
        "scenario": study.scenario.name,
        "trial": tune.grid_search([asdict(start) for start in study.trial_starts]),
        "rounds": study.rounds,
        "federation": study.federation,
        "settings": split_settings(study.settings)[0],
        "search": {key: sampling_domain(key, text) for key, text in study.search.items()},
        "gpu_share": gpu_share,
    }
