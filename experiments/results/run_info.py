"""run.json: what was run, by which code, on which machine. Written beside the rows, read by the report."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.results.federation_record import FederationRecord
from experiments.results.files import atomic_write, sha256
from experiments.study.search import from_text

RUN_FILE = "run.json"
_PACKAGES = ("ray", "torch", "torchvision", "numpy", "pandas", "pyarrow", "scikit-learn", "gymnasium", "pettingzoo")


@dataclass(frozen=True)
class RunInfo:
    """What a results folder was made from.

    `settings` are the fixed `--set` values, `search` the searched expressions, `draws` the settings drawn from them as
    Python literals, `warmup_energy_j` the joules of round 0 per trial, which no row counts. `resolved` is the
    federation with its clients, None in a run.json without them. `init_from` is what policies started from, empty
    where from scratch; `init_policies` the checkpoint of each trial, its hash and what it was trained on.
    """

    scenario: str
    target_accuracy: float
    rounds: int
    federation: Mapping[str, Any]
    methods: Sequence[str]
    seeds: Sequence[int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)
    num_samples: int = 1
    draws: Sequence[Mapping[str, str]] = field(default_factory=list)
    command: str = ""
    warmup_energy_j: Mapping[str, float] = field(default_factory=dict)
    resolved: FederationRecord | None = None
    init_from: str = ""
    init_policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def as_written(federation: Mapping[str, Any]) -> dict[str, Any]:
    """A federation as it reads back from run.json: lists for tuples, dicts for events."""
    record = asdict(RunInfo("", 0.0, 0, dict(federation), (), ()))
    return json.loads(json.dumps(record, default=str))["federation"]


def command_line(module: str, argv: Sequence[str]) -> str:
    """The command as a user would type it again."""
    return shlex.join(["python", "-m", module, *argv])


def git_commit() -> str | None:
    """Commit of the checkout this file is in, with `+changes` if the work tree differs, or None without git."""
    folder = Path(__file__).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def package_versions() -> dict[str, str]:
    """Versions of the packages a result may depend on."""
    return {name: version for name in _PACKAGES if (version := _version(name)) is not None}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Operating system, Python, cores and GPU names."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {"platform": platform.platform(), "python": sys.version.split()[0], "cores": os.cpu_count(), "gpus": gpus}


def write_run_info(results_dir: Path, info: RunInfo) -> Path:
    """Write run.json: `info` and where and when it ran."""
    record = {
        **asdict(info),
        "started": _now(),
        "commit": git_commit(),
        "packages": package_versions(),
        "churn_traces": churn_traces(info),
        "machine": machine(),
    }
    return _write(Path(results_dir), record)


def churn_traces(info: RunInfo) -> dict[str, str]:
    """sha256 of the content of each churn trace file that a study reads, by path; "unreadable" where it cannot be."""
    named = [info.federation.get("churn_trace"), *(draw.get("env.churn_trace") for draw in from_text(info.draws))]
    return {str(path): _sha256_of_trace(Path(path)) for path in dict.fromkeys(named) if path}


def _sha256_of_trace(path: Path) -> str:
    try:
        return sha256(path)
    except OSError:
        return "unreadable"


def add_resumption(results_dir: Path) -> None:
    """Note in run.json that the study goes on: when, by which code, with which packages."""
    record = json.loads((Path(results_dir) / RUN_FILE).read_text())
    now = {"started": _now(), "commit": git_commit(), "packages": package_versions()}
    _write(Path(results_dir), {**record, "resumed": [*record.get("resumed", []), now]})


def read_packages(results_dir: Path) -> dict[str, str]:
    """Versions of the packages that a study was started with."""
    return dict(json.loads((Path(results_dir) / RUN_FILE).read_text()).get("packages", {}))


def read_churn_traces(results_dir: Path) -> dict[str, str]:
    """What `churn_traces` was when a study was started."""
    return dict(json.loads((Path(results_dir) / RUN_FILE).read_text()).get("churn_traces", {}))


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def add_warmup_energy(results_dir: Path, warmup_energy_j: Mapping[str, float]) -> None:
    """Add the joules of round 0 of each trial to run.json."""
    if not (Path(results_dir) / RUN_FILE).exists():
        return  # the folder was removed while the study ran; that is reported by the trials
    record = json.loads((Path(results_dir) / RUN_FILE).read_text())
    known = {**record["warmup_energy_j"], **warmup_energy_j}
    _write(Path(results_dir), {**record, "warmup_energy_j": dict(sorted(known.items()))})


def set_resolved(results_dir: Path, resolved: FederationRecord) -> None:
    """Add what the federation turned out to be to run.json."""
    record = json.loads((Path(results_dir) / RUN_FILE).read_text())
    _write(Path(results_dir), {**record, "resolved": asdict(resolved)})


def read_run_info(results_dir: Path) -> RunInfo | None:
    """What was asked for, or None where there is no readable run.json."""
    try:
        record = json.loads((Path(results_dir) / RUN_FILE).read_text())
        known = {name: record[name] for name in RunInfo.__dataclass_fields__ if name in record}
        resolved = record.get("resolved")
        _ = int(record["rounds"]), float(record["target_accuracy"])  # what everything else counts on
        return RunInfo(**{**known, "resolved": FederationRecord.from_dict(resolved) if resolved else None})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(results_dir: Path, record: Mapping[str, Any]) -> Path:
    path = results_dir / RUN_FILE
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(record, indent=2, default=str) + "\n")
    return path
