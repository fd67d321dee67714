"""``--init-from``: the checkpoint that each trial takes its policies from, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.methods import METHODS
from experiments.results.checkpoints import MANIFEST, checkpoint_at, newest_checkpoint
from experiments.results.rows import ROWS_FILE, read_table
from experiments.results.run_info import RUN_FILE, PolicySource, read_run_info

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig
    from bippo_rllib.policies.saved_policies import PolicyShape
    from envs import FederatedRounds

FLAG = "--init-from"


def find_sources(path: Path, trials: Sequence[tuple[str, str, int]]) -> dict[str, PolicySource]:
    """Returns the source of each trial's policies, by the trial's name.

    Args:
        path: Results folder of a study, of which each trial takes the newest checkpoint with the same method and seed;
            or one trial's folder or checkpoint, for all trials.
        trials: Name, method and seed of each.

    Raises:
        ValueError: If a trial has no complete checkpoint there.
    """
    if (path / RUN_FILE).is_file():
        _refuse_search(path)
        return {name: _source(_of_trial(path, name, method, seed)) for name, method, seed in trials}
    source = _source(_only_checkpoint(path))
    return {name: source for name, _, _ in trials}


def check_unchanged(checkpoint: str, sha256: str) -> None:
    """Raises a ValueError if a checkpoint is gone or has other policies than when it was chosen."""
    from bippo_rllib.policies.saved_policies import policies_sha256

    try:
        found = policies_sha256(checkpoint)
    except ValueError as error:
        raise ValueError(f"{FLAG}: {error}") from None
    if found != sha256:
        raise ValueError(
            f"{FLAG}: the policies in {checkpoint} have changed since the study was started; "
            "start the study again in a new results folder"
        )


def check_fit(checkpoint: str, config: BippoConfig, env: FederatedRounds) -> None:
    """Raises a ValueError if policies do not fit the method's networks or the federation's clients."""
    from bippo_rllib.policies.saved_policies import read_policies

    read_policies(checkpoint).check_fit(_plan(config, env))


def _plan(config: BippoConfig, env: FederatedRounds) -> PolicyShape:
    """Returns the shape of the method's networks, without building them."""
    from bippo_rllib.baselines.central.config import CentralPPOConfig
    from bippo_rllib.policies.saved_policies import PolicyShape
    from envs.agent_ids import client_name, client_names

    shape = env.observation_space(env.possible_agents[0]).shape
    assert shape is not None
    obs_dim = shape[0]
    if isinstance(config, CentralPPOConfig):
        names, live = client_names(env.config.num_clients), env.config.churn_schedule().live_at_start
        joint_dim = config.shared_observations + len(live) * (obs_dim - config.shared_observations)
        return PolicyShape(tuple(names[client] for client in live), joint_dim, config.hidden_size, central=True)
    clients = dict.fromkeys(client_name(agent) for agent in env.possible_agents)
    return PolicyShape(tuple(clients), obs_dim, config.hidden_size)


def _of_trial(results_dir: Path, name: str, method: str, seed: int) -> Path:
    newest = newest_checkpoint(results_dir / name)
    if newest is None:
        there = sorted(folder.name for folder in results_dir.iterdir() if newest_checkpoint(folder) is not None)
        raise ValueError(
            f"{FLAG} {results_dir} has no complete checkpoint of {method} with seed {seed}; "
            f"it has {', '.join(there) or 'none at all'}; train that first, or name one trial's folder for all"
        )
    return newest.path


def _only_checkpoint(path: Path) -> Path:
    if (path / "learner_group").is_dir():
        if (path / MANIFEST).is_file() and checkpoint_at(path) is None:
            raise ValueError(
                f"{FLAG} {path}: the checkpoint is damaged, files differ from its {MANIFEST}; name another"
            )
        return path
    newest = newest_checkpoint(path)
    if newest is None:
        raise ValueError(
            f"{FLAG} {path} is no results folder ({RUN_FILE}), no trial's folder with a complete checkpoint and no "
            "checkpoint; give one of these"
        )
    return newest.path


def _source(checkpoint: Path) -> PolicySource:
    from bippo_rllib.policies.saved_policies import policies_sha256

    complete = checkpoint_at(checkpoint)
    row = _first_row(checkpoint.parent)
    method = str(row.get("method", ""))
    if method in METHODS and not METHODS[method].learns:
        raise ValueError(
            f"{FLAG} {checkpoint} is of {method}, which learns nothing; name a checkpoint of bippo or ippo"
        )
    info = read_run_info(checkpoint.parent.parent)
    return PolicySource(
        checkpoint=str(checkpoint),
        sha256=policies_sha256(checkpoint),
        round=complete.round if complete else None,
        scenario=str(row.get("scenario", "")),
        method=method,
        commit=(info and info.commit) or "",
        seed=int(str(row["seed"])) if "seed" in row else None,
    )


def _first_row(trial: Path) -> Mapping[str, object]:
    """Returns scenario, method and seed in the trial's first row; nothing without rows."""
    try:
        return read_table(trial / ROWS_FILE, ["scenario", "method", "seed"]).slice(0, 1).to_pylist()[0]
    except (OSError, ValueError, IndexError):
        return {}


def _refuse_search(results_dir: Path) -> None:
    info = read_run_info(results_dir)
    if info and info.search:
        raise ValueError(f"{FLAG} {results_dir} is a search, with many trials of one seed; name one trial's folder")
