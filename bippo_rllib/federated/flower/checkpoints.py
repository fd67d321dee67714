"""The state between two rounds that a run can be saved in, and the one that it goes on from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.checks import check_same_selector
from bippo_rllib.federated.flower.history import History
from bippo_rllib.federated.flower.inner_state import InnerState
from bippo_rllib.federated.flower.running import RunState
from bippo_rllib.federated.flower.saved_run import SavedRun

logger = logging.getLogger(__name__)


class Checkpoints:
    """Saves a run after its rounds, and takes over a saved one.

    Args:
        strategy: The inner strategy as it is before the first round.
        history: Of the run.
        path: The file of every round; None for none.

    Raises:
        ValueError: If there is a path and the inner strategy cannot be saved.
    """

    def __init__(self, strategy: Strategy, history: History, path: str | Path | None) -> None:
        self._inner, self._history, self._path = InnerState(strategy), history, path
        self._complete: SavedRun | None = None
        self._loaded: SavedRun | None = None
        if path is not None:
            self._inner.check()

    def open_round(self) -> None:
        """Marks a round as unfinished, in which the selector is ahead of the recorded run."""
        self._complete = None

    def close_round(self, state: RunState, selector: ClientSelector, batteries_j: dict[Any, float]) -> None:
        """Takes the state after a round, and saves it if there is a path."""
        self._complete = SavedRun(state, selector, batteries_j, self._history.size, self._inner.names, None)
        if self._path is not None:
            self._write(self._complete, self._path)

    def save(self, path: str | Path) -> None:
        """Saves the state after the latest round; a ValueError if a round is going on, or none was complete."""
        if self._complete is None:
            raise ValueError("a round is going on, or none is complete; save between rounds, as evaluate_fn may do")
        self._inner.check()
        self._write(self._complete, path)

    def _write(self, run: SavedRun, path: str | Path) -> None:
        """Saves a run, with what the inner strategies remember: until the next round starts, that does not change."""
        if run.inner_states is None:
            run.inner_states = self._inner.get()
        run.save(path)

    def load(self, path: str | Path, selector: ClientSelector) -> SavedRun:
        """Reads a saved run, restores what its inner strategies remember, and has ``start`` go on from it.

        Raises:
            ValueError: If it cannot be read, or is of other strategies, another selector than this one, or another
                history; nothing is changed then.
        """
        saved = SavedRun.load(path)
        if saved.inner_names != self._inner.names:
            raise ValueError(f"{path} was saved with {saved.inner_names}, and this run has {self._inner.names}")
        check_same_selector(selector, saved.selector)
        self._history.check(saved.history_size)
        self._inner.set(saved.inner_states or [])
        self._complete = self._loaded = saved
        return saved

    def start(self, initial_arrays: ArrayRecord) -> RunState:
        """Returns the state that a run starts from: the loaded one, or a new one with this model.

        Raises:
            ValueError: If the loaded one has another model, or the file of the history is another run's.
        """
        if self._loaded is None:
            self._history.clear()
            return RunState(initial_arrays)
        saved, arrays = self._loaded, self._loaded.state.arrays
        _check_same_model(initial_arrays, arrays)
        self._history.go_on(saved.history_size)
        self._loaded = None
        logger.info("goes on after round %d", saved.state.last_round)
        return saved.state


def _check_same_model(initial: ArrayRecord, saved: ArrayRecord) -> None:
    shapes = [{name: tuple(array.shape) for name, array in arrays.items()} for arrays in (initial, saved)]
    if shapes[0] != shapes[1]:
        name = next(name for name in {**shapes[0], **shapes[1]} if shapes[0].get(name) != shapes[1].get(name))
        raise ValueError(
            f"the saved run has another model: {name!r} has the shape {shapes[1].get(name)} there, and "
            f"{shapes[0].get(name)} in initial_arrays"
        )
