"""A selector as one safetensors file: arrays, and the rest as JSON in its metadata. Reading it runs no code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bippo_rllib.deploy.last_round import LastRound
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.representativeness import Prior

#: Its name in a checkpoint.
SELECTOR_FILE = "selector.safetensors"
#: The one metadata key; several would come in random order.
_KEY = "bippo_rllib"
_VERSION = 1
_SAMPLER = ("strategy", "epsilon", "epsilon_decay", "epsilon_min", "outside_odds")


@dataclass
class SelectorParts:
    """A selector as it lies in a file."""

    trainer: PolicyTrainer
    sampler: BudgetSampler
    observation_high: np.ndarray  #: ``float32[obs_dim]`` upper bounds of the observations trained on
    settings: PPOSettings = field(default_factory=PPOSettings)
    prior: Prior | None = None
    trains: list[str] | None = None  #: policies that learn; None for all
    steps: int = 0  #: of training before it was deployed
    largest: float = 0.0  #: samples of the largest client so far
    last: LastRound | None = None


def pack(parts: SelectorParts) -> bytes:
    """The file of a selector; the same selector has the same bytes."""
    trainer, policies, prior, last = parts.trainer, parts.trainer.policies, parts.prior, parts.last
    slots = policies.slots_of(list(policies.slots))
    record: dict[str, Any] = {
        "policy_ids": list(policies.slots),
        "seed": policies.seed,
        "batch_size": trainer.buffer.batch_size,
        "settings": asdict(parts.settings),
        "sampler": {name: getattr(parts.sampler, name) for name in _SAMPLER},
        "sampler_state": parts.sampler.get_state(),
        "trains": parts.trains,
        "steps": parts.steps,
        "largest": parts.largest,
    }
    arrays = {name: rows.numpy() for name, rows in policies.layout.views(policies.flat[slots]).items()}
    arrays |= {f"adam.{name}": array for name, array in trainer.adam.get_state(slots).items()}
    arrays |= {f"buffer.{name}": array for name, array in trainer.buffer.get_state(slots).items()}
    arrays["observation_high"] = parts.observation_high
    if prior is not None:
        state = prior.record.get_state()
        clients = state.pop("clients")
        record["prior"] = {"key": prior.key, "weight": prior.weight, "gain": prior.gain, "clients": clients}
        arrays |= {f"prior.{name}": array for name, array in state.items()}
    if last is not None:
        record["last_policy_ids"] = last.policy_ids
        arrays |= {f"last.{name}": array for name, array in vars(last).items() if name != "policy_ids"}
    return _bytes(arrays, record)


def pack_refusal(reason: str) -> bytes:
    """The file of an algorithm that no selector can stand in for, which says why."""
    return _bytes({}, {"refused": reason})


def unpack(path: str | Path) -> SelectorParts:
    """Reads a selector; see ``find`` for what ``path`` may be.

    Raises:
        ValueError: If there is none, it is damaged or it says why it cannot be one, in one line.
    """
    file = find(Path(path))
    arrays, record = _read(file)
    if "refused" in record:
        raise ValueError(f"{file.parent}: {record['refused']}")
    trainer = _trainer(arrays, record)
    sampler = BudgetSampler(**record["sampler"])
    sampler.set_state(record["sampler_state"])
    prior, last = record.get("prior"), None
    if prior is not None:
        clients = prior.pop("clients")
        prior = Prior(**prior)
        prior.record.set_state({"clients": clients, **_under("prior", arrays)})
    if "last_policy_ids" in record:
        last = LastRound(record["last_policy_ids"], **_under("last", arrays))
    return SelectorParts(
        trainer=trainer,
        sampler=sampler,
        observation_high=arrays["observation_high"],
        settings=PPOSettings(**record["settings"]),
        prior=prior,
        trains=record["trains"],
        steps=record["steps"],
        largest=record["largest"],
        last=last,
    )


def find(path: Path) -> Path:
    """The selector's file at ``path``: a file, in a checkpoint, or in the newest whole checkpoint of a trial's folder.

    Raises:
        ValueError: If there is none; the message says what is there.
    """
    if path.is_file():
        return path
    if (path / SELECTOR_FILE).is_file():
        return path / SELECTOR_FILE
    steps = {file: _steps(file) for file in sorted(path.glob(f"*checkpoint*/{SELECTOR_FILE}"))}
    if steps and max(steps.values()) >= 0:
        return max(steps, key=lambda file: steps[file])
    if (path / "learner_group").is_dir():
        raise ValueError(
            f"no {SELECTOR_FILE} in {path}: the checkpoint was written by a version without; write it again with "
            "Bippo.from_checkpoint(...).save_to_path(...)"
        )
    if not path.exists():
        raise ValueError(f"no selector at {path}: no such file or folder")
    if (path / "params.json").is_file():  # Tune's, of every trial
        raise ValueError(f"no selector in {path} yet: the trial has no whole checkpoint (--checkpoint-every)")
    trial = next((file.parent.parent.name for file in sorted(path.glob(f"*/*checkpoint*/{SELECTOR_FILE}"))), "")
    known = f" (such as {trial})" if trial else ""
    raise ValueError(f"no selector at {path}; give a trial's folder{known}, a checkpoint or an exported file")


def write(path: str | Path, content: bytes) -> None:
    """Replaces the file at once: a kill leaves the old or the new one, and a full disk no part of one."""
    path = Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder, path.name)
        part.write_bytes(content)
        os.replace(part, path)


class _UnreadableError(ValueError):
    """No selector, or part of one, such as a kill leaves."""


def _bytes(arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> bytes:
    text = json.dumps({"version": _VERSION, **record}, default=lambda value: value.item())  # NumPy's numbers
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {_KEY: text})


def _read(file: Path, with_arrays: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        with safe_open(file, framework="np") as content:
            record = json.loads(content.metadata()[_KEY])
            names = content.keys() if with_arrays else ()
            arrays = {name: content.get_tensor(name) for name in names}
    except (OSError, SafetensorError, TypeError, KeyError, ValueError) as error:
        raise _UnreadableError(f"{file} is no selector, or is cut off: {type(error).__name__}: {error}") from None
    if record["version"] != _VERSION:
        raise ValueError(f"{file} has format {record['version']}; this version of bippo_rllib reads {_VERSION}")
    return arrays, record


def _steps(file: Path) -> int:
    """Steps of training that a selector has behind it; -1 of one that cannot be read."""
    try:
        return int(_read(file, with_arrays=False)[1].get("steps", 0))
    except _UnreadableError:
        return -1


def _trainer(arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> PolicyTrainer:
    _, hidden_size, obs_dim = arrays["actor.0.weight"].shape
    policies, ids = PolicyStack(), record["policy_ids"]
    policies.begin(ParameterLayout(obs_dim, hidden_size), record["seed"])
    rows = [torch.from_numpy(arrays[name]).flatten(1) for name in policies.layout.shapes]
    policies.add_policies(ids, torch.cat(rows, dim=1))
    trainer = PolicyTrainer(policies, record["batch_size"])
    trainer.adam.set_state(_under("adam", arrays), policies.slots_of(ids))
    trainer.buffer.set_state(_under("buffer", arrays), policies.slots_of(ids))
    return trainer


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
