"""Training in long-lived Ray actors, each with cores or a share of a GPU of its own.

    env = envs.parallel_env(executor="ray", num_actors=2)

Actors start with the first ``reset``, keep the samples and one model on their device, and serve until ``env.close()``.
A round sends the global weights out once, as one flat array in Ray's object store; each actor is called once, trains
its clients one after the other and returns one partial sum, so traffic grows with actors, not with clients. Clients go
to actors longest first (``envs.training.packing``); all actors evaluate.

*Ray.* If Ray does not run in this process it is started: on the cluster that ``$RAY_ADDRESS`` names, else on this
machine alone. In a Ray Tune trial, actors live in the trial's placement group, which needs a bundle for each
(``BippoConfig.env_resources``).

*Devices.* An actor with a GPU share uses the GPU Ray assigned to it, and no other is visible to it; without CUDA actors
train on the CPU, and a warning says how many. On CPU, results equal those of ``SerialExecutor`` to the last bit,
whatever the number of actors. On GPU the actors ask for deterministic kernels (``cudnn.benchmark=False``,
``torch.use_deterministic_algorithms``, ``CUBLAS_WORKSPACE_CONFIG=:4096:8``); against the CPU, selections that depend on
accuracies may differ.

*Faults.* An actor that dies is replaced and its work of the round done again; a result counts once. If more than
``MAX_DEATHS`` actors die during the work of one call, new ones among them, that is an error.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayTaskError
from torch import Tensor

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, FederationSamples, gather
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.settings.execution import Execution
from envs.training import aggregation
from envs.training.actor_plan import ActorPlan, Resources, actor_plan, refusal, shared_meter, total
from envs.training.aggregation import WeightedSum
from envs.training.client_actor import ActorInfo, ClientActor
from envs.training.client_worker import ClientWorker
from envs.training.executor import apply_failure_policy, warn_no_meter
from envs.training.packing import evaluation_shares, pack

#: Actors that may die during the work of one call before that is an error.
MAX_DEATHS = 3
#: Actors have their resources by then, or never get them.
START_TIMEOUT_S = 300.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Call:
    """A call of one actor's method."""

    slot: int
    method: str
    arguments: tuple[Any, ...]


class RayExecutor:
    """Trains and evaluates clients in Ray actors; the module's docstring says how.

    Args:
        config: The federation.
        plan: Actors and what each takes; None for what ``config`` asks for and Ray has.
        worker_class: What an actor works with.
        new_actor: Makes the actor of a slot from the slot's number; None for a Ray actor with the plan's resources.

    Attributes:
        actors: Process id, device and GPUs of each actor.

    Raises:
        ValueError: If Ray has less than the actors need (the message says what they need and what there is), or the
            energy meter cannot tell them apart.
    """

    def __init__(
        self,
        config: FederationConfig,
        plan: ActorPlan | None = None,
        worker_class: type[ClientWorker] = ClientWorker,
        new_actor: Callable[[int], Any] | None = None,
    ) -> None:
        plan = plan or plan_here(dataclasses.replace(config.execution, executor="ray"))
        assert plan is not None, "executor='ray' always has a plan"
        if problem := shared_meter(config.energy_meter, plan.num_actors, plan.gpus_per_actor):
            raise ValueError(f"{problem}; use num_actors=1 or, on GPUs, gpus_per_actor=1")
        self._config, self._plan = config, plan
        self._dataset = load_dataset(config.dataset, config.data_dir)
        self._worker_class = worker_class
        self._new_actor = new_actor or self._ray_actor
        self._samples: FederationSamples | None = None
        self._sent: tuple[Tensor, ray.ObjectRef] | None = None
        self._slots = [self._new_actor(slot) for slot in range(plan.num_actors)]
        self.actors: list[ActorInfo] = self._infos(self._slots)
        self._log_cpu_actors()
        warn_no_meter(actor.no_meter for actor in self.actors)

    def assign(self, partition: Partition) -> None:
        """Sends all actors the samples in ``partition`` of all clients, so that any of them can train any client."""
        self._samples = gather(self._dataset, partition)
        samples = ray.put(self._samples)
        self._run([_Call(slot, "assign", (samples,)) for slot in range(len(self._slots))])

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains every client; see ``Executor``."""
        parts = self._train("train", weights, clients, key, epochs)
        result = aggregation.merged(part for _, part in parts)
        failed = apply_failure_policy([result], clients, self._config.on_client_failure)
        return dataclasses.replace(result, failed=failed)

    def train_each(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> dict[int, WeightedSum]:
        """Trains every client; see ``Executor``."""
        updates: dict[int, WeightedSum] = {}
        for share, parts in self._train("train_each", weights, clients, key, epochs):
            updates.update(zip(share, parts, strict=False))  # fewer if one failed
        apply_failure_policy(updates.values(), clients, self._config.on_client_failure)
        return {client: updates[client] for client in clients}

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns each client's accuracy; see ``Executor``."""
        return self._evaluate(weights, clients, training_samples=False)[0]

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns each client's mean cross-entropy; see ``Executor``."""
        return self._evaluate(weights, clients, training_samples=True)[1]

    def close(self) -> None:
        """Ends the actors, which live as long as something refers to them."""
        self._slots, self._sent = [], None

    def _train(
        self, method: str, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int
    ) -> list[tuple[list[int], Any]]:
        """Per actor that has work its clients, and what its method returned for them."""
        sizes = self._sizes(training_samples=True)
        packed = pack([sizes[client] * epochs for client in clients], len(self._slots))
        shares = {slot: [clients[place] for place in places] for slot, places in enumerate(packed) if places}
        calls = [_Call(slot, method, (self._ref(weights), share, key, epochs)) for slot, share in shares.items()]
        return list(zip(shares.values(), self._run(calls), strict=True))

    def _evaluate(self, weights: Tensor, clients: Sequence[int], training_samples: bool) -> np.ndarray:
        """``float64[2, len(clients)]`` accuracies and losses."""
        shares = evaluation_shares(tuple(clients), self._sizes(training_samples), len(self._slots))
        calls = [
            _Call(slot, "evaluate", (self._ref(weights), groups, training_samples))
            for slot, groups in enumerate(shares.groups)
            if groups
        ]
        results = np.empty((2, len(clients)))
        results[:, shares.places] = np.concatenate(self._run(calls), axis=1)
        return results

    def _sizes(self, training_samples: bool) -> tuple[int, ...]:
        assert self._samples is not None, "assign comes before anything else"
        return (self._samples.train if training_samples else self._samples.test).sizes

    def _ref(self, weights: Tensor) -> ray.ObjectRef:
        """The weights in the object store; a round's evaluation and the next round's training share them."""
        if self._sent is None or self._sent[0] is not weights:
            self._sent = (weights, ray.put(weights.numpy()))
        return self._sent[1]

    def _run(self, calls: Sequence[_Call]) -> list[Any]:
        """The results of ``calls``, in their order; the calls of an actor that dies are made again to its successor."""
        pending = {self._submit(call): place for place, call in enumerate(calls)}
        results: list[Any] = [None] * len(calls)
        deaths = 0
        while pending:
            (done,), _ = ray.wait(list(pending), num_returns=1)
            place = pending.pop(done)
            try:
                results[place] = ray.get(done)
            except RayTaskError as error:
                raise error.cause from error
            except (RayActorError, ObjectLostError) as error:
                deaths = self._replace(calls[place].slot, error, deaths + 1)
                pending[self._submit(calls[place])] = place
        return results

    def _submit(self, call: _Call) -> ray.ObjectRef:
        return getattr(self._slots[call.slot], call.method).remote(*call.arguments)

    def _replace(self, slot: int, error: Exception, deaths: int) -> int:
        """Puts a new actor with the same samples in the place of one that died.

        Args:
            slot: Its place.
            error: What its death raised.
            deaths: Actors that have died so far, it included.

        Returns:
            ``deaths``, and those of new actors that died before they had the samples.
        """
        pid, detail = self.actors[slot].pid, " ".join(str(error).split())
        if deaths > MAX_DEATHS:
            raise RuntimeError(
                f"FL actors died {deaths} times during one round's work, lately process {pid}: {detail}; "
                "if memory ran out, lower num_actors or batch_size"
            ) from error
        logger.warning("FL actor %d (process %d) died; its work of the round is done again", slot, pid)
        try:
            self._slots[slot] = actor = self._new_actor(slot)
            (self.actors[slot],) = self._infos([actor])
            self._log_cpu_actors()
            if self._samples is not None:
                ray.get(actor.assign.remote(self._samples))
        except (RayActorError, ObjectLostError) as again:
            return self._replace(slot, again, deaths + 1)
        return deaths

    def _infos(self, actors: Sequence[Any]) -> list[ActorInfo]:
        try:
            return ray.get([actor.info.remote() for actor in actors], timeout=START_TIMEOUT_S)
        except GetTimeoutError:
            free = ray.available_resources()
            raise ValueError(
                f"{len(actors)} FL actors have not started in {START_TIMEOUT_S:g} s: they need {self._plan.needs}, "
                f"free are {free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs; end what else runs there"
            ) from None

    def _log_cpu_actors(self) -> None:
        on_cpu = [actor.device for actor in self.actors].count("cpu")
        if on_cpu:
            _log_cpu(on_cpu, len(self.actors), self._plan.gpus_per_actor > 0)

    def _ray_actor(self, slot: int) -> Any:
        options = {"num_cpus": self._plan.cpus_per_actor, "num_gpus": self._plan.gpus_per_actor}
        shape = DataShape.of(self._dataset)
        new = ray.remote(ClientActor).options(**options).remote
        return new(self._config, shape, self._worker_class, may_use_gpu=self._plan.gpus_per_actor > 0)


def plan_here(execution: Execution) -> ActorPlan | None:
    """Returns the actors ``execution`` asks for, given what Ray has here; None to train serially.

    Starts Ray if it must.

    Raises:
        ValueError: If Ray has less than the actors need.
    """
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS") or "local"
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    group = ray.util.get_current_placement_group()
    parts = cluster_nodes() if group is None else _bundles(group.bundle_specs)
    plan = actor_plan(execution, total(parts))
    where = "the Ray cluster" if group is None else "this trial beside itself (see BippoConfig.env_resources)"
    if plan and (message := refusal(plan, parts, where)):
        raise ValueError(f"{message}; lower num_actors, cpus_per_actor or gpus_per_actor, or give it more")
    return plan


def cluster_nodes() -> list[Resources]:
    """Returns what each live node of the Ray that runs here has."""
    return [_resources(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _bundles(specs: Sequence[dict[str, float]]) -> list[Resources]:
    """The bundles of the placement group this process is in; what the process itself takes is from the first."""
    own = _resources(ray.get_runtime_context().get_assigned_resources())
    first, *others = map(_resources, specs)
    return [Resources(first.cpus - own.cpus, first.gpus - own.gpus), *others]


def _resources(amounts: dict[str, float]) -> Resources:
    return Resources(amounts.get("CPU", 0.0), amounts.get("GPU", 0.0))


@functools.cache
def _log_cpu(on_cpu: int, num_actors: int, hold_gpus: bool) -> None:
    """Once per process for each number of them."""
    if hold_gpus:
        found = f"{on_cpu} of {num_actors} FL actors hold GPUs that torch cannot use and train on the CPU"
        logger.warning("no CUDA on their node: %s; install torch with CUDA there, or use gpus_per_actor=0", found)
    else:
        logger.info("FL actors train on the CPU")
