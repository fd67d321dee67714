"""run.json: what was run, by which code, on which machine. Written beside the rows, read by the report."""

from __future__ import annotations

import json
import reprlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from experiments.results.federation_record import FederationRecord
from experiments.results.files import atomic_write, sha256
from experiments.results.provenance import code_and_time, machine
from experiments.results.ranges import AtLeastOne, Joules, Seed, Share
from experiments.results.setting_text import from_text

RUN_FILE = "run.json"


@dataclass(frozen=True)
class PolicySource:
    """Where a trial's policies come from."""

    checkpoint: str  #: Absolute path of its folder.
    sha256: str  #: Hash of the file in it that holds the policies.
    round: AtLeastOne | None = None  #: Rounds they were trained; None if unknown.
    scenario: str = ""  #: Scenario they were trained on; empty if unknown.
    method: str = ""  #: Method that trained them; empty if unknown.
    commit: str = ""  #: Commit of the code that trained them; empty if unknown.
    seed: Seed | None = None  #: Seed of the trial that trained them; None if unknown.

    def __str__(self) -> str:
        """Returns for example ``fashion-mnist, round 200``."""
        return ", ".join(([self.scenario] if self.scenario else []) + ([f"round {self.round}"] if self.round else []))


@dataclass(frozen=True, order=True)
class SelectorNetwork:
    """The networks of a method that trains policies, and for how long; their MACs are counted from it."""

    central: bool  #: One network for all clients; else one for each.
    epochs: AtLeastOne  #: Passes over each sample.
    hidden_size: AtLeastOne  #: Of actor and critic.
    critic: bool  #: False where policies learn without one.


@dataclass(frozen=True)
class RunInfo:
    """What a results folder was made from."""

    scenario: str  #: Its name.
    target_accuracy: Share  #: A share of 1.
    rounds: AtLeastOne  #: FL rounds of a trial.
    federation: Mapping[str, Any]  #: Keywords of ``envs.parallel_env`` that all trials share.
    methods: Annotated[Sequence[str], Field(min_length=1)]  #: As in ``--methods`` and in rows, in the requested order.
    seeds: Annotated[Sequence[Seed], Field(min_length=1)]  #: In the requested order.
    settings: Mapping[str, Any] = field(default_factory=dict)  #: The fixed ``--set`` values.
    callbacks: Sequence[str] = field(default_factory=list)  #: ``MODULE:NAME`` of RLlib callbacks.
    search: Mapping[str, str] = field(default_factory=dict)  #: The searched expressions.
    num_samples: AtLeastOne = 1  #: Settings drawn from them.
    draws: Sequence[Mapping[str, str]] = field(default_factory=list)  #: What was drawn, as Python literals.
    command: str = ""  #: As a user would type it again.
    warmup_energy_j: Mapping[str, Joules] = field(default_factory=dict)  #: Joules of round 0 by trial; no row has them.
    federation_record: FederationRecord | None = None  #: The federation as built; None where the search changes it.
    #: Networks of each method: for each draw of a search, or one; None where no policy is trained.
    networks: Mapping[str, Sequence[SelectorNetwork | None]] = field(default_factory=dict)
    init_from: str = ""  #: What policies started from; empty where from scratch.
    init_policies: Mapping[str, PolicySource] = field(default_factory=dict)  #: By trial.
    # What follows is filled in when the file is written, and not compared.
    #: Settings that each method started from, before those of the study.
    method_settings: Mapping[str, Mapping[str, Any]] = field(compare=False, default_factory=dict)
    custom_modules: Mapping[str, str] = field(compare=False, default_factory=dict)  #: SHA-256 by name.
    started: str = field(compare=False, default="")  #: Start time in ISO format.
    commit: str | None = field(compare=False, default=None)  #: Commit of the checkout that ran; None without git.
    packages: Mapping[str, str] = field(compare=False, default_factory=dict)  #: Versions by name.
    churn_traces: Mapping[str, str] = field(compare=False, default_factory=dict)  #: SHA-256 by path.
    machine: Mapping[str, Any] = field(compare=False, default_factory=dict)  #: System, Python, cores, GPUs.
    resumed: Sequence[Mapping[str, Any]] = field(
        compare=False, default_factory=list
    )  #: When, code, packages, rounds of a trial.


_RUN_INFO = TypeAdapter(RunInfo)


def read_run_info(record: Path) -> RunInfo | None:
    """Reads run.json, given the file or its folder; None where there is no readable one."""
    try:
        return load_run_info(record)
    except (OSError, ValueError):
        return None


def load_run_info(record: Path) -> RunInfo:
    """Reads run.json, given the file or its folder, and checks the type and range of every field.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, or for the first thing in it that is no record of a study, in one line.
    """
    path = run_file(record)
    if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
        raise ValueError(f"{path} is no file")
    try:
        return parse_run_info(path.read_bytes(), path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def parse_run_info(content: str | bytes, source: object) -> RunInfo:
    """Parses the text of a run.json; ``source`` names it in errors.

    Raises:
        ValueError: For the first thing in it that is no record of a study, in one line.
    """
    try:
        info = _RUN_INFO.validate_json(content, strict=True)
        _check(info)
    except ValidationError as error:
        raise ValueError(f"{source} is no record of a study: {_first_problem(error)}") from None
    except ValueError as error:
        raise ValueError(f"{source} is no record of a study: {error}") from None
    return info


def run_file(record: Path) -> Path:
    """Returns the path of a record, given that or its folder."""
    return Path(record) / RUN_FILE if Path(record).is_dir() else Path(record)


def _first_problem(error: ValidationError) -> str:
    """Returns for example ``rounds is 'four', expected a valid integer``."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"it has no {name}"
    message = first["msg"].replace("Input should be", "expected")
    return f"{name} is {reprlib.repr(first['input'])}, {message}" if name else message


def _check(info: RunInfo) -> None:
    """Checks what concerns more than one field.

    Raises:
        ValueError: For the first thing that is wrong.
    """
    for name, values in (("methods", info.methods), ("seeds", info.seeds)):
        if len(set(values)) < len(values):
            raise ValueError(f"{name} names one of them twice")
    for method, networks in info.networks.items():
        if method not in info.methods or len(networks) != max(1, len(info.draws)):
            raise ValueError(f"networks has {len(networks)} of {method}; expected one for each draw of its methods")
    if info.federation_record is not None:
        info.federation_record.check()


def write_run_info(results_dir: Path, info: RunInfo) -> None:
    """Writes run.json: ``info``, and where and when it is run."""
    _write(results_dir, replace(info, churn_traces=churn_traces(info), machine=machine(), **code_and_time()))


def add_resumption(results_dir: Path, rounds: int) -> None:
    """Records in run.json that the study is resumed, and how many rounds a trial has from now on."""
    info = read_run_info(results_dir)
    assert info is not None, "a study is resumed from its run.json"
    _write(results_dir, replace(info, rounds=rounds, resumed=[*info.resumed, {**code_and_time(), "rounds": rounds}]))


def add_warmup_energy(results_dir: Path, warmup_energy_j: Mapping[str, float]) -> None:
    """Adds the joules of round 0 of each trial to run.json."""
    info = read_run_info(results_dir)
    if info is not None:  # the folder may have been removed while the study ran; that is reported by the trials
        known = {**info.warmup_energy_j, **warmup_energy_j}
        _write(results_dir, replace(info, warmup_energy_j=dict(sorted(known.items()))))


def _write(results_dir: Path, info: RunInfo) -> None:
    with atomic_write(Path(results_dir) / RUN_FILE) as unfinished:
        text = json.dumps(asdict(info), indent=2, default=str, ensure_ascii=False) + "\n"
        unfinished.write_bytes(text.encode("utf-8", "replace"))  # half a surrogate could not be read again


def as_written(federation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a federation as it reads back from run.json: lists for tuples, dicts for events."""
    return to_jsonable_python(federation, fallback=str)


def command_line(command: str, argv: Sequence[str]) -> str:
    """Returns the command as a user would type it again."""
    return f"{command} {shlex.join(argv)}".rstrip()


def churn_traces(info: RunInfo) -> dict[str, str]:
    """Returns the SHA-256 of each churn trace file of a study, by path; "unreadable" where it cannot be read."""
    named = [info.federation.get("churn_trace"), *(draw.get("env.churn_trace") for draw in from_text(info.draws))]
    return {
        str(path): _sha256_or_unreadable(Path(path))
        for path in dict.fromkeys(path for path in named if path and isinstance(path, str))
    }


def _sha256_or_unreadable(path: Path) -> str:
    try:
        return sha256(path)
    except OSError:
        return "unreadable"
