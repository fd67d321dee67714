"""How many actors train the clients and what each takes: pure functions of settings and resources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envs.checks import number, one_of, positive, whole

EXECUTORS = ("auto", "serial", "ray")
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
        """Of all actors together."""
        return Resources(self.num_actors * self.cpus_per_actor, self.num_actors * self.gpus_per_actor)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """One bundle of a placement group per actor."""
        bundle = {"CPU": float(self.cpus_per_actor), "GPU": float(self.gpus_per_actor)}
        return [{name: amount for name, amount in bundle.items() if amount} for _ in range(self.num_actors)]


def check_execution(
    executor: str, num_actors: int | None, cpus_per_actor: float, gpus_per_actor: float | None, device: str
) -> None:
    """Checks the settings of the same names of a ``FederationConfig``."""
    one_of("executor", executor, EXECUTORS)
    positive("cpus_per_actor", cpus_per_actor)
    if num_actors is not None:
        whole("num_actors", num_actors, least=1)
    if gpus_per_actor is not None:
        number("gpus_per_actor", gpus_per_actor)
        if not gpus_per_actor >= 0 or (gpus_per_actor > 1 and gpus_per_actor != int(gpus_per_actor)):
            raise ValueError(f"gpus_per_actor is {gpus_per_actor}; it must be a share from 0 to 1 or a whole number")
    if executor == "serial" and (num_actors is not None or gpus_per_actor is not None):
        raise ValueError("num_actors and gpus_per_actor are for executor='ray'; executor='serial' has no actors")
    if executor == "ray" and device != "cpu":
        raise ValueError(f"device is {device!r}, but Ray's actors train on the GPUs Ray gives them; leave device out")


def actor_plan(
    executor: str,
    num_actors: int | None,
    cpus_per_actor: float,
    gpus_per_actor: float | None,
    device: str,
    has: Resources,
    side_by_side: int = 1,
) -> ActorPlan | None:
    """The actors to start, or None to train serially.

    Args:
        executor: As in ``FederationConfig``, and so are the next four.
        num_actors: None for one per GPU of a trial's share, or 2 where there is none.
        cpus_per_actor: Cores of an actor.
        gpus_per_actor: None for an equal share of the GPUs, rounded down to 1/2, 1/3, ... or whole GPUs.
        device: Anything but ``cpu`` is the user's own choice, which ``auto`` respects.
        has: What there is for all trials.
        side_by_side: Trials that share it.
    """
    if executor == "serial" or (executor == "auto" and (has.gpus == 0 or gpus_per_actor == 0 or device != "cpu")):
        return None
    of_trial = has.gpus / side_by_side
    if num_actors is None:
        if not has.gpus or gpus_per_actor == 0:
            num_actors = DEFAULT_CPU_ACTORS
        else:
            num_actors = max(1, math.floor(of_trial / (gpus_per_actor or 1.0)))
    if gpus_per_actor is None:
        gpus_per_actor = _even_share(of_trial / num_actors)
    return ActorPlan(num_actors, cpus_per_actor, gpus_per_actor)


def _even_share(gpus: float) -> float:
    """1, or the largest 1/k that is not above ``gpus``; never more, as a model uses one GPU."""
    return 0.0 if gpus <= 0 else 1.0 / math.ceil(1.0 / min(gpus, 1.0) - 1e-9)


def refusal(plan: ActorPlan, parts: Sequence[Resources], where: str) -> str | None:
    """One line if the actors do not all fit, else None.

    Args:
        plan: The actors.
        parts: What each node (or bundle) has; an actor lives in one of them.
        where: What the parts are parts of, for the message.
    """
    if sum(_actors_in(plan, part) for part in parts) >= plan.num_actors:
        return None
    has = Resources(sum(part.cpus for part in parts), sum(part.gpus for part in parts))
    each = f"{plan.num_actors} x ({Resources(plan.cpus_per_actor, plan.gpus_per_actor)})"
    on_nodes = "" if len(parts) < 2 else f" on {len(parts)} nodes"
    return (
        f"the FL actors need {plan.needs} = {each}, {where} has {has}{on_nodes}; "
        "lower num_actors, cpus_per_actor or gpus_per_actor, or give it more"
    )


def _actors_in(plan: ActorPlan, part: Resources) -> int:
    pairs = ((part.cpus, plan.cpus_per_actor), (part.gpus, plan.gpus_per_actor))
    return min(math.floor(there / each + 1e-6) for there, each in pairs if each)
