"""All that this package uses of RLlib although RLlib does not promise it: what to look at before a new version of Ray.

Whatever begins with an underscore there may change without notice. Each entry here says what it takes for granted; no
other file of the package uses a private name of RLlib, of Ray or of Gymnasium (``tests/system/test_rllib_compat.py``).
The hooks ``_forward`` of RLModules and ``_before_evaluate`` of algorithms are documented ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import PPO
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.core import ALL_MODULES
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_TRAINABLE_PARAMETERS,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.metrics.stats import ItemStats
from ray.tune.registry import ENV_CREATOR, _global_registry


def registered_creator(name: Any) -> Callable[..., Any] | None:
    """Returns what ``register_env`` registered under a name, if anything; RLlib has no public way to look it up."""
    known = isinstance(name, str) and _global_registry.contains(ENV_CREATOR, name)
    return _global_registry.get(ENV_CREATOR, name) if known else None


def is_wanted(owner: Checkpointable, name: str, components: Any, not_components: Any) -> bool:
    """Whether ``get_state(components, not_components=...)`` asks for a component; the rule is a private method."""
    return owner._check_component(name, components, not_components)


def has_env_to_module_connectors(config: AlgorithmConfig) -> bool:
    """Whether a configuration adds env-to-module connectors, which it keeps in a private attribute."""
    return config._env_to_module_connector is not None


def use_modules(multi_module: MultiRLModule, modules: MutableMapping[str, Any]) -> None:
    """Makes ``modules`` the modules of a ``MultiRLModule``; that these are one private mapping is not promised."""
    multi_module._rl_modules = modules


def names_of_single_values(metrics: MetricsLogger) -> list[str]:
    """Returns the names logged with ``reduce="item"`` for all modules; the classes of logged values are internal."""
    return [name for name, stats in metrics.stats.get(ALL_MODULES, {}).items() if isinstance(stats, ItemStats)]


class LateEvaluationPPO(PPO):
    """PPO whose ``setup`` makes no env runner for evaluations.

    RLlib's would seed the global random generators anew, and there is no public way to have it made later.
    """

    @classmethod
    def _should_create_evaluation_env_runners(cls, eval_config: AlgorithmConfig) -> bool:
        return False


class LeanLearner(TorchLearner):
    """A learner without what costs time for every policy. When RLlib calls these methods is not promised."""

    @property
    def num_parameters(self) -> int:
        """Parameters of all policies."""
        raise NotImplementedError

    def get_optimizer_state(self) -> dict[str, Any]:
        """Returns the optimizer's part of the state."""
        raise NotImplementedError

    def set_optimizer_state(self, state: dict[str, Any]) -> None:
        """Restores what ``get_optimizer_state`` returned."""
        raise NotImplementedError

    def count_update(self) -> None:
        """Counts an update: RLlib copies weights to env runners only if this number is above theirs."""
        self._weights_seq_no += 1

    def forget_updates(self) -> None:
        """Counts from 0 again, or ``set_state`` would ignore the weights of an older state."""
        self._weights_seq_no = 0

    def _get_optimizer_state(self) -> dict[str, Any]:
        return self.get_optimizer_state()

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        self.set_optimizer_state(state)

    def _map_module_to_device(self, module: Any) -> None:
        """Does nothing, as policies stay on the CPU; RLlib's would make a module of each to move it."""

    def _log_trainable_parameters(self) -> None:
        """Logs one total; RLlib's logs a value for each policy."""
        self.metrics.log_value((ALL_MODULES, NUM_TRAINABLE_PARAMETERS), self.num_parameters, window=1)


class LeanEnvRunner(MultiAgentEnvRunner):
    """A multi-agent env runner without bookkeeping that grows with the episode or the number of agents.

    RLlib's keeps all chunks of an episode for its metrics and logs four metrics per agent. The names of its attributes,
    and when they are read, are not promised.
    """

    @property
    def module_to_env(self) -> ConnectorPipelineV2:
        """The module-to-env pipeline, which is public as a component of checkpoints only."""
        return self._module_to_env

    @property
    def needs_reset(self) -> bool:
        """Whether the next ``sample`` resets the environment first."""
        return self._needs_initial_reset

    @needs_reset.setter
    def needs_reset(self, value: bool) -> None:
        self._needs_initial_reset = value

    @property
    def first_seed(self) -> int | None:
        """Seed of the environment's first reset, which RLlib computes from the configuration's seed."""
        return self._seed

    def forget_weights_version(self) -> None:
        """Makes the env runner take over the next weights that RLlib copies here, even if they are no newer."""
        self._weights_seq_no = 0

    def episode_callback(self, event: str, episode: Any) -> None:
        """Calls the callbacks for an event of an episode, with RLlib's arguments."""
        self._make_on_episode_callback(event, 0, [episode])
        self._ongoing_episodes_for_metrics.clear()  # an entry is made for every episode that ends

    def sample_callback(self, samples: Sequence[Any]) -> None:
        """Calls the callbacks at the end of ``sample``, with RLlib's arguments."""
        make_callback(
            "on_sample_end",
            callbacks_objects=self._callbacks,
            callbacks_functions=self.config.callbacks_on_sample_end,
            kwargs={"env_runner": self, "metrics_logger": self.metrics, "samples": samples},
        )

    def log_step(self) -> None:
        """Logs one environment step."""
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED, 1, reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, 1, reduce="lifetime_sum", with_throughput=True)

    def log_episode(self, length: int, episode_return: float, seconds: float) -> None:
        """Logs an episode that has ended, under RLlib's names."""
        self.metrics.log_value(NUM_EPISODES, 1, reduce="sum")
        self.metrics.log_value(NUM_EPISODES_LIFETIME, 1, reduce="lifetime_sum")
        self._log_episode_metrics(length, episode_return, seconds)

    def get_metrics(self) -> Any:
        """Returns the metrics since the last call; those of an episode are logged when it ends."""
        self._done_episodes_for_metrics.clear()
        return self.metrics.reduce()

    def _increase_sampled_metrics(self, num_steps: int, next_obs: Any, episode: Any) -> int:
        self.log_step()
        return num_steps


class EpisodeHooks(LeanEnvRunner):
    """RLlib's own way to run episodes, with hooks around resets and steps, and a way to resume an episode.

    RLlib cuts an episode at every step and keeps its state, and that of the vector environment, in private attributes;
    it offers no way to continue an episode out of a checkpoint.
    """

    def on_reset(self) -> None:
        """Runs before the environment is reset; does nothing here."""

    def on_step(self, actions: Mapping[Any, Any], returned: tuple[Any, ...]) -> Mapping[Any, Any]:
        """Runs after each step with what the environment returned; returns the observations to use."""
        return returned[0]

    def on_seen(self, agent_ids: Iterable[Any]) -> None:
        """Runs for the agents that a reset or a step returned an observation of, before the pipelines see them."""

    @property
    def running_episode(self) -> MultiAgentEpisode:
        """The chunk that the next step is added to."""
        return self._ongoing_episodes[0]

    @property
    def resets_next(self) -> bool:
        """Whether the next step resets the environment, as the episode is over."""
        return bool(self.env.unwrapped._autoreset_envs[0])

    def keep_chunks(self, episode_id: str | None = None, chunks: Sequence[Any] = ()) -> None:
        """Sets what callbacks get as earlier chunks of a running episode; without one, drops all."""
        self._ongoing_episodes_for_metrics.clear()
        if episode_id is not None:
            self._ongoing_episodes_for_metrics[episode_id] = list(chunks)

    def resume_episode(self, observations: dict, infos: dict, episode_id: str, is_over: bool) -> None:
        """Continues an episode from the given observations and infos."""
        _mark_as_reset(self.env.envs[0])
        vector_env = self.env.unwrapped
        vector_env._autoreset_envs = np.array([is_over])
        vector_env._observations[0], vector_env._infos[0] = observations, infos
        self._shared_data: dict[str, Any] = {}
        self._new_episode(0)
        self.running_episode.id_ = episode_id
        if not is_over:
            self.running_episode.add_env_reset(observations=observations, infos=infos)
        self._cached_to_module = self._env_to_module(
            rl_module=self.module,
            batch={},
            episodes=self._ongoing_episodes,
            explore=self.config.explore,
            shared_data=self._shared_data,
            metrics=self.metrics,
        )

    def _try_env_step(self, actions: Sequence[Mapping[Any, Any]]) -> Any:
        results = super()._try_env_step(actions)
        if results != ENV_STEP_FAILURE:
            results[0][0] = self.on_step(actions[0], tuple(entries[0] for entries in results))
            self.on_seen(results[0][0])
        return results

    def _try_env_reset(self, **kwargs: Any) -> tuple[Any, Any]:
        observations, infos = super()._try_env_reset(**kwargs)
        self.on_seen(observations[0])
        return observations, infos

    def _reset_envs_and_episodes(self, explore: bool) -> None:
        self.on_reset()
        super()._reset_envs_and_episodes(explore)


def _mark_as_reset(env: Any) -> None:
    """Tells Gymnasium's order check, a wrapper around every environment, that it was reset."""
    while env is not env.unwrapped:
        if hasattr(env, "_has_reset"):
            env._has_reset = True
        env = env.env
