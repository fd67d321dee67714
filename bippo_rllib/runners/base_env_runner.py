"""What both env runners share: counters of the running episode, its state, and the budget sampler's piece."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.rllib.core import COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from bippo_rllib.policies.agents import environment_in
from bippo_rllib.rllib_compat import LeanEnvRunner, is_wanted, registered_creator
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter, registered_env
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.pipeline import find_piece

RUN_STATE = "run"
#: Components of an env runner that hold its connector pieces.
PIECES = (COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR)


class BaseEnvRunner(LeanEnvRunner):
    """A multi-agent env runner without bookkeeping that grows, and resumable.

    Episode metrics are running sums (the stock runner keeps every chunk of the running episode, and several metrics
    per agent), and the state holds the environment's, where a ``ParallelEnv`` has ``get_state`` and
    ``set_state``.
    """

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self._clear_counters()

    def make_env(self) -> None:
        """As the stock runner's; what a registered name makes may also be a ``ParallelEnv``."""
        if (creator := registered_creator(self.config.env)) is not None:
            self.config.env = registered_env(self.config.env, creator)
        super().make_env()

    @property
    def sampler_connector(self) -> BudgetSamplerConnector:
        """The budget sampler's piece in the module-to-env pipeline.

        Raises:
            ValueError: If there is none.
        """
        if (piece := find_piece(self.module_to_env, BudgetSamplerConnector)) is None:
            raise ValueError(
                "no BudgetSamplerConnector in the module-to-env pipeline, so nothing would keep the selection within "
                "the budget; leave add_default_connectors_to_module_to_env_pipeline on, or append the piece yourself"
            )
        return piece

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """The stock state and, where the environment can be restored, the running episode unless it evaluates."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if is_wanted(self, RUN_STATE, components, not_components):
            state[RUN_STATE] = self._run_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``; the next ``sample`` continues the restored episode.

        Where the state has no episode, as that of an environment that cannot be restored, it starts a new one. If the
        environment or a connector piece refuses its part of the state, the env runner is as it was.
        """
        if RUN_STATE not in state or self.config.in_evaluation:
            super().set_state(state)
            return
        run = state[RUN_STATE]
        with self._pieces_kept():
            super().set_state(state)
            resumed = run and self._environment.set_state(run["environment"])
        if run:
            self._episode_length, self._episode_return = run["counters"]
            self._resume(*resumed, episode_id=run["episode_id"], episode_over=run["episode_over"])
        self.needs_reset = not run

    @contextmanager
    def _pieces_kept(self) -> Iterator[None]:
        """Puts the connector pieces back to where they were if what is done inside fails."""
        before = copy.deepcopy(self.get_state(components=PIECES))
        try:
            yield
        except BaseException:
            super().set_state(before)
            raise

    @property
    def _environment(self) -> MultiAgentEnv:
        return environment_in(self.env)

    @abstractmethod
    def _episode_over(self) -> bool:
        """Whether the next step begins with a reset."""

    @abstractmethod
    def _episode_id(self) -> str:
        """Returns the id of the running episode, which all of its steps carry."""

    @abstractmethod
    def _resume(self, observations: dict, infos: dict, *, episode_id: str, episode_over: bool) -> None:
        """Continues an episode in the middle, from the observations and infos of that moment."""

    def _run_state(self) -> dict[str, Any] | None:
        if self.config.in_evaluation or self.needs_reset or not isinstance(self._environment, ParallelEnvAdapter):
            return None
        state = self._environment.get_state()
        if state is None:
            return None
        return {
            "environment": state,
            "episode_id": self._episode_id(),
            "episode_over": self._episode_over(),
            "counters": (self._episode_length, self._episode_return),
        }

    def _count(self, num_steps: int, episode_return: float, episode_over: bool) -> None:
        """Adds steps to the running episode's sums, and logs these when it ends."""
        self._episode_length += num_steps
        self._episode_return += episode_return
        if episode_over:
            self.log_episode(self._episode_length, self._episode_return, time.perf_counter() - self._episode_start)
            self._clear_counters()

    def _clear_counters(self) -> None:
        self._episode_length, self._episode_return, self._episode_start = 0, 0.0, time.perf_counter()
