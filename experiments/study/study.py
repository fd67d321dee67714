"""What a study is: methods x seeds (x searched settings) on a scenario. Checked here, run by `tune_run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.methods import METHODS
from experiments.results.run_info import RunInfo
from experiments.scenarios import Scenario
from experiments.study.search import as_text, drawn_settings, ends
from experiments.study.settings import ENV_PREFIX, check_federation_keys, describe, sampling_domain, split_settings
from experiments.study.transfer import PolicySource, check_fit

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig
    from envs import FederatedRounds
    from experiments.study.placement import Placement


@dataclass(frozen=True)
class TrialStart:
    """A trial to run: from the start, or from the checkpoint at `resume_from`.

    From the start with the policies in the checkpoint at `init_from`, of that hash, if it is given. In a search,
    `number` tells the trials apart and `search` holds the settings drawn for this one.
    """

    method: str
    seed: int
    resume_from: str = ""
    number: int | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    init_from: str = ""
    init_sha256: str = ""

    @property
    def name(self) -> str:
        """Of its folder."""
        number = "" if self.number is None else f"-{self.number:05d}"
        return f"{self.method}-seed{self.seed}{number}"


@dataclass(frozen=True)
class Study:
    """What to run. `settings` and the keys of `search` are as in `--set` and `--search`; `results_dir` is absolute.

    `parallel_trials` is the number of trials side by side, None for one per core; `checkpoint_every` is in rounds;
    `execution` says who trains the clients: `executor`, `num_actors`, `cpus_per_actor`, `gpus_per_actor` of a
    `FederationConfig`; `starts` are the trials left of a study that is resumed, None for all; `recorded_draws` the
    settings it drew, None to draw them. `init_from` is what `--init-from` named, `sources` the checkpoint it comes to
    for each method and seed, by the name of their trial outside a search.
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
    init_from: str = ""
    sources: Mapping[str, PolicySource] = field(default_factory=dict)
    recorded_draws: tuple[Mapping[str, Any], ...] | None = None

    @cached_property
    def draws(self) -> tuple[Mapping[str, Any], ...]:
        """The settings of a search, each tried with all methods and seeds; a single empty one without a search."""
        if self.recorded_draws is not None:
            return self.recorded_draws
        return drawn_settings(self.search, self.num_samples, self.seeds[0]) if self.search else ({},)

    @property
    def all_starts(self) -> tuple[TrialStart, ...]:
        """Every trial of the study, from its beginning."""
        cases = [(draw, method, seed) for draw in self.draws for method in self.methods for seed in self.seeds]
        return tuple(
            TrialStart(
                method, seed, number=number if self.search else None, search=draw, **self._policies(method, seed)
            )
            for number, (draw, method, seed) in enumerate(cases)
        )

    def _policies(self, method: str, seed: int) -> dict[str, str]:
        source = self.sources.get(TrialStart(method, seed).name)
        return {"init_from": source.checkpoint, "init_sha256": source.sha256} if source else {}

    @property
    def trial_starts(self) -> tuple[TrialStart, ...]:
        """What is to run: all methods x seeds, or what is left of a study that is resumed."""
        return self.all_starts if self.starts is None else self.starts

    @property
    def num_trials(self) -> int:
        return len(self.trial_starts)

    @property
    def trial_names(self) -> list[str]:
        """Folder names of the trials."""
        return [start.name for start in self.trial_starts]

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
            draws=as_text(self.draws) if self.search else [],
            command=self.command,
            init_from=self.init_from,
            init_policies={name: asdict(source) for name, source in self.sources.items()},
        )


def check_study(study: Study) -> None:
    """Find out everything that can be wrong before Ray starts: data, budget, settings. ValueError in one line."""
    import envs
    from experiments.study.placement import place
    from experiments.study.ray_session import available_nodes

    fields = tuple(envs.FederationConfig.__dataclass_fields__)
    check_federation_keys(list(split_settings({**study.settings, **study.search})[1]), fields)
    _check_ends(study)
    for draw in study.draws:
        _check_draw(study, draw)
    for seed in study.seeds:
        env = _check_federations(study, study.draws[0], seed)
    for start in study.all_starts:
        if start.init_from and study.starts is None:  # a resumed study was checked when it was started
            check_fit(start.init_from, _config(study, start.method, start.search), env)
    place(study, available_nodes(study.parallel_trials))


def _check_draw(study: Study, draw: Mapping[str, Any]) -> None:
    """Settings that are fine one by one may not go together."""
    try:
        _check_settings(study, draw)
    except ValueError as error:
        if not draw:
            raise
        raise ValueError(f"--search draws {describe(draw)}: {error}") from None


def _check_ends(study: Study) -> None:
    """What the search spaces may yield, one key at a time, whatever is drawn this time."""
    first = study.draws[0]
    for key, expression in study.search.items():
        for value in ends(sampling_domain(key, expression)):
            try:
                _check_settings(study, {**first, key: value})
            except ValueError as error:
                if key.removeprefix(ENV_PREFIX) not in str(error) and _is_refused(study, first):
                    continue  # something else is wrong, and said about the draw
                raise ValueError(f"--search {key}={expression} reaches {value!r}: {error}") from None


def _is_refused(study: Study, draw: Mapping[str, Any]) -> bool:
    try:
        _check_settings(study, draw)
    except ValueError:
        return True
    return False


def _check_settings(study: Study, draw: Mapping[str, Any]) -> None:
    """The study's settings with those of one draw, for all methods and the first seed."""
    for method in study.methods:
        _config(study, method, draw).validate()
    if split_settings(draw)[1]:
        _check_federations(study, draw, study.seeds[0])


def _config(study: Study, method: str, draw: Mapping[str, Any]) -> BippoConfig:
    from experiments.study.row_callback import TrialInfo
    from experiments.study.trial import bippo_config

    info = TrialInfo(study.scenario.name, method, study.seeds[0])
    federation = study.scenario.federation_for(study.rounds)
    return bippo_config(info, federation, {**study.settings, **draw}, study.rounds)


def _check_federations(study: Study, draw: Mapping[str, Any], seed: int) -> FederatedRounds:
    """Makes the environment of each method, once where several have the same; returns one of them."""
    import envs
    from envs.training.executor import check_device

    settings = {**study.federation, **study.execution, **split_settings(draw)[1]}
    seen: list[dict[str, Any]] = []
    for method in study.methods:
        federation = METHODS[method].needs_met(settings)
        if federation not in seen:
            seen.append(federation)
            check_device(str(federation.get("device", "cpu")))
            env = envs.parallel_env(**federation, rounds=study.rounds, seed=seed)
    return env


def param_space(study: Study, placement: Placement) -> dict[str, Any]:
    """Tune's search space, a grid over the trials; `trial.config_of` turns one point of it into a BippoConfig."""
    from ray import tune

    return {
        "scenario": study.scenario.name,
        "trial": tune.grid_search([asdict(start) for start in study.trial_starts]),
        "rounds": study.rounds,
        "federation": {**study.federation, **placement.execution},
        "settings": split_settings(study.settings)[0],
        "gpu_share": placement.gpu_share,
        "bundles": placement.bundles,
    }
