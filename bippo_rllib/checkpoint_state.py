"""The state in a checkpoint folder, read as a whole before any of it is restored."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from pyarrow.fs import FileSystem, FileType
from ray.rllib.utils.checkpoints import Checkpointable


def read_state(owner: Checkpointable, path: str, filesystem: FileSystem) -> dict[str, Any]:
    """Reads the state that ``owner.set_state`` restores, with the states of its components under their names.

    Args:
        owner: The object to restore; it is not changed.
        path: Its folder. Components without a folder are left out, as in RLlib's ``restore_from_path``.
        filesystem: File system of the folder.

    Raises:
        FileNotFoundError: If the folder or the state in it is missing.
    """
    if not _exists(path, filesystem):
        raise FileNotFoundError(f"there is no checkpoint at {path}; give the folder that save_to_path wrote")
    with filesystem.open_input_stream(f"{path}/{owner.STATE_FILE_NAME}.pkl") as file:
        state = pickle.load(file)
    for name, component in owner.get_checkpointable_components():
        if _exists(f"{path}/{name}", filesystem):
            state[name] = read_state(component, f"{path}/{name}", filesystem)
    return state


def component_of(owner: Checkpointable, name: str | None) -> Checkpointable:
    """Returns the component that RLlib calls ``name``, such as ``learner_group/learner``; ``owner`` itself for None.

    Raises:
        ValueError: If there is no such component; the message lists the known ones.
    """
    for part in name.split("/") if name else ():
        components = dict(owner.get_checkpointable_components())
        if part not in components:
            raise ValueError(f"there is no component {name!r}; {part!r} is not one of {sorted(components)}")
        owner = components[part]
    return owner


def located(path: str | Path, filesystem: FileSystem | None) -> tuple[str, FileSystem]:
    """Returns a path on a file system, and that file system; ``path`` may be a URI if none is given."""
    if filesystem is not None:
        return Path(path).as_posix(), filesystem
    filesystem, on_it = FileSystem.from_uri(str(path))
    return on_it, filesystem


def _exists(path: str, filesystem: FileSystem) -> bool:
    return filesystem.get_file_info(path).type is not FileType.NotFound
