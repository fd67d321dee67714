"""Our algorithms under measurement, with stopwatches in place: BIPPO and the central network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bippo_rllib import BippoConfig, BudgetSampler, BudgetSamplerConnector
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.learning.step_learner import NUM_POLICIES_UPDATED
from bippo_rllib.policies.agents import CENTRAL as CENTRAL_POLICY
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter
from bippo_rllib.selection.pipeline import find_connector
from bippo_rllib.selection.prior import RepresentativenessPrior
from experiments.benchmark.rl.free_rounds import PAIR, FreeRounds
from experiments.benchmark.rl.kernel import bare_kernel
from experiments.benchmark.rl.rows import Case
from experiments.benchmark.rl.stopwatch import Stopwatch


@dataclass(frozen=True)
class Subject:
    """An algorithm under measurement."""

    algo: Any  #: The algorithm.
    environment: ParallelEnvAdapter  #: It counts its own seconds.
    pair: Callable[[], int]  #: Runs two rounds; returns how many policies were updated.
    #: Returns the seconds of two bare forward passes and of one bare update; None for others than BIPPO.
    kernel: Callable[[], tuple[float, float]] | None
    watch: Stopwatch  #: Seconds by part.


class TimedSampler(BudgetSamplerConnector):
    """The budget sampler with a stopwatch: gathering costs and budget from the infos, and the selection.

    Without exploration: the highest suggestions win, so that the same clients take part in every round.
    """

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__(BudgetSampler(epsilon=0.0, epsilon_min=0.0, seed=0))
        self._watch = watch

    def __call__(self, **kwargs: Any) -> dict[str, Any]:
        """As the budget sampler's."""
        with self._watch.timing("sampler"):
            return super().__call__(**kwargs)


def build_bippo(case: Case, watch: Stopwatch) -> Subject:
    """Our algorithm; a pair is two ``train()``."""
    algo = _build(BippoConfig(), case, watch)
    watch.wrap(algo.bank, "act", "forward")
    return _subject(algo, bare_kernel(algo.bank, case.num_participants), watch)


def build_prior(case: Case, watch: Stopwatch) -> Subject:
    """Our algorithm with the representativeness prior, whose time counts as the sampler's."""
    algo = _build(BippoConfig().selection(prior_key="accuracy", prior_weight=2.0), case, watch)
    watch.wrap(algo.bank, "act", "forward")
    watch.wrap(find_connector(algo.env_runner.module_to_env, RepresentativenessPrior), "scores", "sampler")
    return _subject(algo, None, watch)


def build_central(case: Case, watch: Stopwatch) -> Subject:
    """The central baselines' network over all clients; a pair is two ``train()``, of which the second updates it."""
    algo = _build(CentralPPOConfig(), case, watch)
    watch.wrap(algo.bank[CENTRAL_POLICY], "act", "forward")
    return _subject(algo, None, watch)


def _build(config: BippoConfig, case: Case, watch: Stopwatch) -> Any:
    config.environment(FreeRounds, env_config=env_config(case)).debugging(seed=0)
    config.env_runners(module_to_env_connector=lambda env, spaces: TimedSampler(watch))
    algo = config.build_algo()
    watch.wrap(algo.learner_group, "update", "learner")
    return algo


def _subject(algo: Any, kernel: Callable[[], tuple[float, float]] | None, watch: Stopwatch) -> Subject:
    def pair() -> int:
        results = [algo.train() for _ in range(PAIR)]
        return sum(result["learners"]["__all_modules__"][NUM_POLICIES_UPDATED] for result in results)

    return Subject(algo, algo.env_runner.env.envs[0].unwrapped, pair, kernel, watch)


def env_config(case: Case) -> dict[str, int]:
    """Keywords of ``FreeRounds``."""
    return {"num_clients": case.num_clients, "num_participants": case.num_participants}
