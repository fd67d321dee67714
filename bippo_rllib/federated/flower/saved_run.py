"""A run between two rounds as one safetensors file. Reading it runs no code."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.node_reports import NodeReports
from bippo_rllib.federated.flower.packed_values import UnknownValue, pack, unpack
from bippo_rllib.federated.flower.running import RunState
from bippo_rllib.federated.reports import ClientReport
from bippo_rllib.federated.selector_file import SELECTOR_FILE, write

#: Of the format.
VERSION = 1
_KEY = "bippo_rllib.flower"
_SELECTOR = "selector"


@dataclass
class SavedRun:
    """What a file holds.

    Attributes:
        state: Of the run.
        selector: The selector.
        batteries_j: Joules that are left, by client.
        history_size: Bytes in the history's file.
        inner_names: Classes of the inner strategies, outermost first.
        inner_states: What each of them remembers; None as long as the run is not saved.
    """

    state: RunState
    selector: ClientSelector
    batteries_j: dict[Any, float]
    history_size: int
    inner_names: list[str]
    inner_states: list[dict[str, Any]] | None

    def save(self, path: str | Path) -> None:
        """Writes the file; one that is there is replaced at once.

        Raises:
            ValueError: If a value is none that a file can hold, or the selector cannot be saved; nothing is written.
        """
        arrays: dict[str, np.ndarray] = {}
        latest = self.state.latest
        values = {
            "arrays": self.state.arrays,
            "round": self.state.last_round,
            "trained": self.state.trained,
            "has_model": self.state.has_model,
            "profiles": self.state.profiles,
            "reports": {c: [r.accuracy, r.num_samples, r.cost_j, r.loss] for c, r in latest.reports.items()},
            "node_ids": latest.node_ids,
            "metrics": {client: dict(metrics) for client, metrics in latest.metrics.items()},
            "batteries_j": self.batteries_j,
            "history_size": self.history_size,
            "inner_names": self.inner_names,
            "inner_states": self.inner_states,
        }
        try:
            packed = json.dumps({"version": VERSION, "run": pack(values, arrays)})
        except UnknownValue as error:
            raise ValueError(
                f"the run has a value that no file can hold, {error}; clients are texts or numbers"
            ) from None
        arrays[_SELECTOR] = np.frombuffer(self.selector.to_bytes(), np.uint8)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write(path, save(arrays, {_KEY: packed}))

    @classmethod
    def load(cls, path: str | Path) -> SavedRun:
        """Reads a file.

        Raises:
            ValueError: If there is none, or it is damaged or of another version; in one line.
        """
        if not Path(path).is_file():
            raise ValueError(f"there is no saved run at {path}")
        try:
            with safe_open(path, framework="np") as content:
                record = json.loads(content.metadata()[_KEY])
                arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
            if record["version"] != VERSION:
                raise ValueError(f"format {record['version']!r:.20}, and this version reads {VERSION}")
            selector = _selector(arrays.pop(_SELECTOR))
            return _saved_run(unpack(record["run"], arrays), selector)
        except (OSError, SafetensorError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ValueError(f"{path} is no saved run, or is damaged: {reason}") from None


def _selector(content: np.ndarray) -> ClientSelector:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, SELECTOR_FILE)
        file.write_bytes(content.tobytes())
        return ClientSelector.load(file)


def _saved_run(values: dict[str, Any], selector: ClientSelector) -> SavedRun:
    names = ("accuracy", "num_samples", "cost_j", "loss")
    reports = {
        client: ClientReport(**dict(zip(names, numbers, strict=True))) for client, numbers in values["reports"].items()
    }
    state = RunState(
        arrays=values["arrays"],
        last_round=values["round"],
        latest=NodeReports(reports, values["node_ids"], values["metrics"]),
        trained=values["trained"],
        has_model=values["has_model"],
        profiles=values["profiles"],
    )
    others = ("batteries_j", "history_size", "inner_names", "inner_states")
    return SavedRun(state, selector, **{name: values[name] for name in others})
