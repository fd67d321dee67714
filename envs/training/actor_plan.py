"""How many actors train the clients and which resources each takes: pure functions of settings and resources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envs.settings.execution import Execution

#: Actors where nothing says how many and there is no GPU.
DEFAULT_CPU_ACTORS = 2


@dataclass(frozen=True)
class Resources:
    """Cores and GPUs, as Ray counts them."""

    cpus: float
    gpus: float = 0.0

    def __str__(self) -> str:
        return f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'} and {self.gpus:g} GPU{'' if self.gpus == 1 else 's'}"


@dataclass(frozen=True)
class ActorPlan:
    """Actors and what each of them takes."""

    num_actors: int
    cpus_per_actor: float
    gpus_per_actor: float

    @property
    def needs(self) -> Resources:
        """Returns what all actors take together."""
        return Resources(self.num_actors * self.cpus_per_actor, self.num_actors * self.gpus_per_actor)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """Returns one bundle of a placement group per actor."""
        bundle = {"CPU": float(self.cpus_per_actor), "GPU": float(self.gpus_per_actor)}
        return [{name: amount for name, amount in bundle.items() if amount} for _ in range(self.num_actors)]


def actor_plan(execution: Execution, has: Resources, side_by_side: int = 1) -> ActorPlan | None:
    """Returns the actors to start, or None to train serially.

    Args:
        execution: The settings. ``num_actors=None`` is one per GPU of a trial's share, or 2 where there is none;
            ``gpus_per_actor=None`` an equal share of the GPUs, rounded down to 1/2, 1/3, ... With ``auto``, a
            ``device`` that was named is respected.
        has: What there is for all trials.
        side_by_side: Trials that share it.
    """
    gpus = execution.gpus_per_actor
    no_gpus = has.gpus == 0 or gpus == 0
    if execution.executor == "serial" or (execution.executor == "auto" and (no_gpus or execution.device != "cpu")):
        return None
    of_trial = has.gpus / side_by_side
    num_actors = execution.num_actors
    if num_actors is None:
        num_actors = DEFAULT_CPU_ACTORS if no_gpus else max(1, math.floor(of_trial / (gpus or 1.0)))
    return ActorPlan(num_actors, execution.cpus_per_actor, _even_share(of_trial / num_actors) if gpus is None else gpus)


def _even_share(gpus: float) -> float:
    """1, or the largest 1/k that is not above ``gpus``; never more, as a model uses one GPU."""
    return 0.0 if gpus <= 0 else 1.0 / math.ceil(1.0 / min(gpus, 1.0) - 1e-9)


def refusal(plan: ActorPlan, parts: Sequence[Resources], where: str) -> str | None:
    """Returns why the actors do not all fit, in one line; None if they do.

    Args:
        plan: The actors.
        parts: What each node (or bundle) has; an actor lives in one of them.
        where: What the parts are parts of, for the message.
    """
    if fitting(plan, parts) >= plan.num_actors:
        return None
    has = total(parts)
    each = f"{plan.num_actors} x ({Resources(plan.cpus_per_actor, plan.gpus_per_actor)})"
    on_nodes = "" if len(parts) < 2 else f" on {len(parts)} nodes"
    return f"the FL actors need {plan.needs} = {each}, {where} has {has}{on_nodes}"


def shared_meter(name: str, at_once: int, gpu_share: float) -> str | None:
    """Returns why a meter would count several clients' trainings as one, in one line; None if it would not.

    Args:
        name: As in ``energy_meter``.
        at_once: Clients that train at the same time.
        gpu_share: Of a GPU that each of them has to itself; 0 for training on the CPU.
    """
    if name == "rapl" and at_once > 1 and gpu_share == 0.0:
        return f"energy_meter rapl reads the whole processor, on which {at_once} clients would train at once"
    if name == "nvml" and 0.0 < gpu_share < 1.0:
        return f"energy_meter nvml reads a whole GPU, of which each training would have {gpu_share:.3g}"
    return None


def fitting(plan: ActorPlan, parts: Sequence[Resources]) -> int:
    """Returns how many actors like the plan's fit."""
    return sum(_actors_in(plan, part) for part in parts)


def total(parts: Sequence[Resources]) -> Resources:
    """Returns what all parts have together."""
    return Resources(sum(part.cpus for part in parts), sum(part.gpus for part in parts))


def _actors_in(plan: ActorPlan, part: Resources) -> int:
    pairs = ((part.cpus, plan.cpus_per_actor), (part.gpus, plan.gpus_per_actor))
    return min(math.floor(there / each + 1e-6) for there, each in pairs if each)
