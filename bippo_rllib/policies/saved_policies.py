"""Reads actors and critics out of a checkpoint, and checks whether they fit. Works without Ray."""

from __future__ import annotations

import hashlib
import io
import pickle
import pickletools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.agents import CENTRAL
from bippo_rllib.setting_error import shown

_MODULES_FOLDER = Path("learner_group", "learner", "rl_module")
_STATE = "module_state.pkl"
_MOST_NAMED = 5


@dataclass(frozen=True)
class PolicyShape:
    """Clients and sizes of a set of policies.

    Attributes:
        clients: Policy ids; of a central network its clients, in agent order.
        obs_dim: Inputs of each actor and critic.
        hidden_size: Hidden units of each.
        central: One network for all clients instead of one each.
    """

    clients: tuple[str, ...]
    obs_dim: int
    hidden_size: int
    central: bool = False

    @property
    def kind(self) -> str:
        """Description for error messages."""
        return f"one central network for {len(self.clients)} clients" if self.central else "a policy for each client"


@dataclass(frozen=True)
class SavedPolicies:
    """Policies in a checkpoint.

    Attributes:
        folder: The checkpoint.
        shape: Clients and sizes of the policies.
        state: State dict of the RLModule: policy id -> name -> array, or the central network's.
    """

    folder: Path
    shape: PolicyShape
    state: Mapping[str, Any]

    def check_fit(self, expected: PolicyShape) -> None:
        """Refuses policies that an algorithm with the ``expected`` policies cannot start from.

        Raises:
            ValueError: Naming both values of what differs.
        """
        found = self.shape
        if found.central != expected.central:
            raise ValueError(f"{self.folder} holds {found.kind}, expected {expected.kind}")
        if set(found.clients) != set(expected.clients):
            raise ValueError(
                f"{self.folder} is of other agents: only in the checkpoint "
                f"{only_in(found.clients, expected.clients)}, only here {only_in(expected.clients, found.clients)}; "
                "start from a run with the same agents"
            )
        if found.central and found.clients != expected.clients:
            raise ValueError(f"{self.folder} has the clients in another order; a central network is tied to the order")
        if found.hidden_size != expected.hidden_size:
            raise ValueError(
                f"{self.folder} has policies of {found.hidden_size} hidden units, expected "
                f"{expected.hidden_size}; use the same hidden_size"
            )
        if found.obs_dim != expected.obs_dim:
            raise ValueError(
                f"{self.folder} has policies of {found.obs_dim} inputs, expected {expected.obs_dim}; "
                "start from a run with the same observations"
            )


def absolute(path: Any, filesystem: Any = None) -> Any:
    """Makes a local path absolute, as PyArrow needs it; URIs, paths on another file system and None are unchanged."""
    is_local = isinstance(path, Path) or (isinstance(path, str) and "://" not in path)
    return str(Path(path).absolute()) if is_local and filesystem is None else path


def policies_file(folder: str | Path) -> Path:
    """Returns the file of a checkpoint that holds its policies.

    Raises:
        ValueError: If there is none.
    """
    modules = Path(folder) / _MODULES_FOLDER
    for file in (modules / CENTRAL / _STATE, modules / _STATE):
        if file.is_file():
            return file
    raise ValueError(f"no policies at {modules}; give the folder that Bippo.save_to_path wrote")


def policies_sha256(folder: str | Path) -> str:
    """Returns the SHA-256 of ``policies_file(folder)``."""
    return hashlib.sha256(policies_file(folder).read_bytes()).hexdigest()


def read_policies(folder: str | Path) -> SavedPolicies:
    """Reads the policies out of a checkpoint written by ``Bippo.save_to_path`` or Tune.

    Of a checkpoint, which holds pickles, this one file is read, and of that arrays only: no code in it is run.

    Raises:
        ValueError: If there are none, they are damaged or their numbers are not finite; in one line.
    """
    file = policies_file(folder)
    try:
        content = file.read_bytes()
        _check_opcodes(content)
        state = _ArraysOnly(io.BytesIO(content)).load()
        return SavedPolicies(Path(folder), _checked_shape(state, file.parent.name == CENTRAL), state)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise ValueError(f"{file} holds no policies: {reason}") from error


def _checked_shape(state: Any, central: bool) -> PolicyShape:
    """Returns clients and sizes of the policies in ``state``; each must have all arrays, of one size, and finite."""
    policies = {CENTRAL: state["parameters"]} if central else dict(state)
    clients = state["clients"] if central else list(policies)
    names = isinstance(clients, list) and all(isinstance(client, str) for client in clients)
    if not names or not clients or len(set(clients)) < len(clients):
        raise ValueError(f"its clients are {shown(clients)}; expected different names")
    generation = state["generation"] if central else 0
    if type(generation) is not int or not 0 <= generation < 2**63:
        raise ValueError(f"its generation is {shown(generation)}; expected a whole number")
    hidden_size, obs_dim = next(iter(policies.values()))["actor.0.weight"].shape
    shapes = ParameterLayout(obs_dim, hidden_size, len(clients) if central else 2).shapes
    for policy_id, arrays in policies.items():
        found = {name: (array.shape, array.dtype == np.float32) for name, array in arrays.items()}
        if found != {name: (shape, True) for name, shape in shapes.items()}:
            raise ValueError(f"{policy_id!r} is no float32 policy of {hidden_size} hidden units and {obs_dim} inputs")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError(f"{policy_id!r} has weights that are not finite: the run that saved it diverged")
    return PolicyShape(tuple(clients), obs_dim, hidden_size, central)


def _check_opcodes(content: bytes) -> None:
    """Refuses a pickle that is cut off, or whose memo indices would make Python allocate gigabytes."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) >= len(content):
            raise pickle.UnpicklingError(f"it remembers something as number {argument}")


class _ArraysOnly(pickle.Unpickler):
    """Unpickles NumPy arrays in dicts, and refuses any other class or function, which would be called."""

    _NAMES = frozenset({"_frombuffer", "_reconstruct", "scalar", "ndarray", "dtype"})
    _NUMPY_MODULES = re.compile(r"numpy(\._?core(\.numeric|\.multiarray))?")

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Returns an object of NumPy, of any version."""
        is_numpy = self._NUMPY_MODULES.fullmatch(module_name) and global_name in self._NAMES
        if not is_numpy and (module_name, global_name) != ("collections", "OrderedDict"):
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is no array")
        return super().find_class(module_name, global_name)


def only_in(these: Iterable[str], others: Iterable[str]) -> str:
    """Lists the entries of ``these`` that are not in ``others``, the first few by name."""
    known = set(others)
    names = [name for name in these if name not in known]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) + more) or "none"
