"""Base of both env runners: counters of the running episode, its state, and access to the budget sampler."""

from __future__ import annotations

import copy
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.rllib.core import COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from bippo_rllib.policies.agents import environment_in
from bippo_rllib.rllib_compat import LeanEnvRunner, is_wanted, registered_creator
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter, registered_env
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.pipeline import find_connector

RUN_STATE = "run"
#: Components of an env runner that hold its connectors.
CONNECTORS = (COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR)


class BaseEnvRunner(LeanEnvRunner):
    """An env runner that logs sums instead of keeping episodes, and that can be resumed during an episode.

    The state includes the environment's if a ``ParallelEnv`` has ``get_state`` and ``set_state``. The step of an agent
    that pauses when the state is saved is not continued after a restore: nothing is learned from it.
    """

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self._clear_counters()

    def make_env(self) -> None:
        """Overrides RLlib's so that a registered name may also stand for a ``ParallelEnv``."""
        if (creator := registered_creator(self.config.env)) is not None:
            self.config.env = registered_env(self.config.env, creator)
        with warnings.catch_warnings():  # RLlib registers its wrapper anew for each env runner of a process
            warnings.filterwarnings("ignore", ".*Overriding environment rllib-multi-agent-env", UserWarning)
            super().make_env()

    def sampler_connector(self) -> BudgetSamplerConnector:
        """Returns the budget sampler's connector in the module-to-env pipeline.

        Raises:
            ValueError: If there is none.
        """
        if (connector := find_connector(self.module_to_env, BudgetSamplerConnector)) is None:
            raise ValueError(
                "no BudgetSamplerConnector in the module-to-env pipeline, so nothing would keep the selection within "
                "the budget; leave add_default_connectors_to_module_to_env_pipeline on, or append the connector"
            )
        return connector

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns RLlib's state and, in training, the running episode if the environment can be restored."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if is_wanted(self, RUN_STATE, components, not_components):
            state[RUN_STATE] = self._run_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; the next ``sample`` continues the restored episode.

        If the state has no episode, since the environment cannot be restored, the next ``sample`` starts one. If the
        environment or a connector refuses its part of the state, the env runner is unchanged.
        """
        if RUN_STATE not in state or self.config.in_evaluation:
            super().set_state(state)
            return
        run = state[RUN_STATE]
        with self._connectors_kept():
            super().set_state(state)
            resumed = run and self._environment.set_state(run["environment"])
        if run:
            self._episode_length, self._episode_return = run["counters"]
            self._resume(*resumed, episode_id=run["episode_id"], episode_over=run["episode_over"])
        self.needs_reset = not run

    @contextmanager
    def _connectors_kept(self) -> Iterator[None]:
        """Restores the connectors' previous state if the block fails."""
        before = copy.deepcopy(self.get_state(components=CONNECTORS))
        try:
            yield
        except BaseException:
            super().set_state(before)
            raise

    @property
    def _environment(self) -> MultiAgentEnv:
        return environment_in(self.env)

    @property
    @abstractmethod
    def live_policies(self) -> Sequence[str]:
        """Ids of the policies of the live agents; none before an episode has begun and after it has ended."""

    @abstractmethod
    def _episode_over(self) -> bool:
        """Whether the next step resets the environment first."""

    @abstractmethod
    def _episode_id(self) -> str:
        """Returns the id of the running episode, which all of its steps carry."""

    @abstractmethod
    def _resume(self, observations: dict, infos: dict, *, episode_id: str, episode_over: bool) -> None:
        """Continues an episode from its latest observations and infos."""

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
        """Adds steps to the running episode's sums, which are logged when it ends."""
        self._episode_length += num_steps
        self._episode_return += episode_return
        if episode_over:
            self.log_episode(self._episode_length, self._episode_return, time.perf_counter() - self._episode_start)
            self._clear_counters()

    def _clear_counters(self) -> None:
        self._episode_length, self._episode_return, self._episode_start = 0, 0.0, time.perf_counter()
