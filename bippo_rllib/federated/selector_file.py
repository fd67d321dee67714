"""A selector as one safetensors file: arrays, and the rest as JSON in its metadata. Reading it runs no code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bippo_rllib.federated.last_round import LastRound
from bippo_rllib.federated.packed_rankings import pack_ranking, unpack_ranking
from bippo_rllib.federated.rewards import Reward
from bippo_rllib.federated.selector_fields import VERSION, array_fields, check_arrays, check_fields, check_headers
from bippo_rllib.federated.selector_parts import SelectorParts, trainer_with
from bippo_rllib.federated.selector_settings import MATCHING, PRIOR, SAMPLER
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.update_matching import UpdateMatching

#: Its name in a checkpoint.
SELECTOR_FILE = "selector.safetensors"
#: The one metadata key; several would come in random order.
_KEY = "bippo_rllib"
#: The array whose shape is the policies' size.
_WEIGHTS = "actor.0.weight"


def pack(parts: SelectorParts) -> bytes:
    """Returns the file of a selector; the same selector has the same bytes.

    Raises:
        ValueError: If ``unpack`` could not read it, in one line.
    """
    if type(parts.sampler) is not BudgetSampler:
        raise ValueError(f"the sampler is a {type(parts.sampler).__name__}, and a file holds a BudgetSampler's state")
    trainer, policies, prior, last = parts.trainer, parts.trainer.policies, parts.prior, parts.last
    slots = policies.slots_of(list(policies.slots))
    record: dict[str, Any] = {
        "policy_ids": list(policies.slots),
        "seed": policies.seed,
        "batch_size": trainer.buffer.batch_size,
        "settings": asdict(parts.settings),
        "sampler": {name: getattr(parts.sampler, name) for name in SAMPLER},
        "sampler_state": parts.sampler.get_state(),
        "prior": None,
        "matching": None,
        "reward": None if parts.reward is None else asdict(parts.reward),
        "explore": parts.explore,
        "trains": parts.trains,
        "steps": parts.steps,
        "largest": parts.largest,
        "last_policy_ids": None if last is None else last.policy_ids,
    }
    arrays = {name: rows.numpy() for name, rows in policies.layout.views(policies.flat[slots]).items()}
    arrays |= {f"adam.{name}": array for name, array in trainer.adam.get_state(slots).items()}
    arrays |= {f"buffer.{name}": array for name, array in trainer.buffer.get_state(slots).items()}
    arrays["observation_high"] = parts.observation_high
    if prior is not None:
        state = prior.record.get_state()
        clients = state.pop("clients")
        record["prior"] = {name: getattr(prior, name) for name in PRIOR} | {"clients": clients}
        arrays |= {f"prior.{name}": array for name, array in state.items()}
    if parts.matching is not None:
        record["matching"], of_matching = _pack_matching(parts.matching)
        arrays |= of_matching
    rankings, of_ranking = pack_ranking(parts.ranking)
    record, arrays = record | rankings, arrays | of_ranking
    if last is not None:
        arrays |= {f"last.{name}": array for name, array in vars(last).items() if name != "policy_ids"}
    return _bytes(arrays, record)


def pack_refusal(reason: str, steps: int) -> bytes:
    """Returns the file of an algorithm that no selector can replace, with the reason."""
    return _bytes({}, {"refused": reason, "steps": steps})


def unpack(path: str | Path) -> SelectorParts:
    """Reads a selector; see ``find`` for what ``path`` may be.

    Raises:
        ValueError: If there is no file, it is damaged or it has no selector, in one line.
    """
    file = find(Path(path))
    record = _read_record(file)
    if "refused" in record:
        raise ValueError(f"{file.parent}: {' '.join(record['refused'].split())}")
    return _parts(record, _read_arrays(file, record))


def find(path: Path) -> Path:
    """Finds the selector's file: ``path``, or in a checkpoint, or in the newest whole checkpoint of a trial's folder.

    Raises:
        ValueError: If there is none; the message has what was found.
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
    if any(path.glob("events.out.tfevents.*")):  # of every trial
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
    text = json.dumps({"version": VERSION, **record}, default=lambda value: value.item())  # NumPy's numbers
    written = json.loads(text)
    check_fields(written)
    if arrays:
        check_arrays(arrays, array_fields(written, arrays[_WEIGHTS].shape))
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {_KEY: text})


def _read_record(file: Path) -> dict[str, Any]:
    """Returns the record in a file, checked; nothing else is read."""
    try:
        with safe_open(file, framework="np") as content:
            record = json.loads(content.metadata()[_KEY])
        version = record["version"]
    except (OSError, SafetensorError, TypeError, KeyError, ValueError, RecursionError) as error:
        raise _UnreadableError(f"{file} is no selector, or is cut off: {_one_line(error)}") from None
    if isinstance(version, int) and version != VERSION:
        raise ValueError(
            f"{file} has format {version!r:.20}; this version of bippo_rllib reads {VERSION}: write it again with "
            "Bippo.from_checkpoint(...).save_to_path(...)"
        )
    try:
        check_fields(record)
    except ValueError as error:
        raise _UnreadableError(f"{file} is damaged: {error}") from None
    return record


def _read_arrays(file: Path, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the arrays that belong to ``record``; types and shapes are checked before any of them is read."""
    try:
        with safe_open(file, framework="np") as content:
            slices = {name: content.get_slice(name) for name in content.keys()}  # noqa: SIM118
            headers = {name: (found.get_dtype(), tuple(found.get_shape())) for name, found in slices.items()}
            fields = array_fields(record, headers.get(_WEIGHTS, ("", ()))[1])
            check_headers(headers, fields)
            arrays = {name: content.get_tensor(name) for name in fields}
        check_arrays(arrays, fields)
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {_one_line(error)}") from None
    return arrays


def _one_line(error: Exception) -> str:
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"[:500]


def _steps(file: Path) -> int:
    """Returns the steps of training that a selector has behind it; -1 of one that cannot be read."""
    try:
        return _read_record(file)["steps"]
    except _UnreadableError:
        return -1


def _parts(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SelectorParts:
    """Returns the selector of what was read and checked."""
    _, hidden_size, obs_dim = arrays[_WEIGHTS].shape
    layout, ids = ParameterLayout(obs_dim, hidden_size), record["policy_ids"]
    rows = [torch.from_numpy(arrays[name]).flatten(1) for name in layout.shapes]
    sampler = BudgetSampler(**record["sampler"])
    sampler.set_state(record["sampler_state"])
    prior, reward, last_ids = record["prior"], record["reward"], record["last_policy_ids"]
    return SelectorParts(
        trainer=trainer_with(
            ids,
            layout,
            record["seed"],
            record["batch_size"],
            rows=torch.cat(rows, dim=1),
            adam=_under("adam", arrays),
            buffer=_under("buffer", arrays),
        ),
        sampler=sampler,
        observation_high=arrays["observation_high"],
        settings=PPOSettings(**record["settings"]),
        prior=None if prior is None else _prior(prior, _under("prior", arrays)),
        matching=None if record["matching"] is None else _matching(record["matching"], _under("matching", arrays)),
        ranking=unpack_ranking(record, arrays),
        reward=None if reward is None else Reward(**reward),
        explore=record["explore"],
        trains=record["trains"],
        steps=record["steps"],
        largest=record["largest"],
        last=None if last_ids is None else LastRound(last_ids, **_under("last", arrays)),
    )


def _prior(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Prior:
    prior = Prior(**{name: record[name] for name in PRIOR})
    prior.record.set_state({"clients": record["clients"], **arrays})
    return prior


def _pack_matching(matching: UpdateMatching) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the entries and the arrays of update matching."""
    state = matching.get_state()
    profiles, recent = state["profiles"], state["recent"]
    record = {name: getattr(matching, name) for name in MATCHING} | {
        "clients": list(profiles),
        "profile_size": matching.profile_size,
        "first_length": state["first_length"],
        "num_recent": len(recent),
        "past_size": state["past_size"],
    }
    stacked = np.array(list(profiles.values()), dtype=np.float64).reshape(len(profiles), matching.profile_size or 0)
    arrays = {"profiles": stacked, "recent": np.array(recent, dtype=np.float64), "past": state["past"]}
    return record, {f"matching.{name}": array for name, array in arrays.items()}


def _matching(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> UpdateMatching:
    result = UpdateMatching(**{name: record[name] for name in MATCHING})
    profiles = dict(zip(record["clients"], arrays["profiles"], strict=True))
    lengths = {"first_length": record["first_length"], "recent": arrays["recent"].tolist()}
    past = {"past": arrays["past"], "past_size": record["past_size"]}
    result.set_state({"profiles": profiles, **lengths, **past})
    return result


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
