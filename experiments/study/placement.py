"""Where a study's trials and their FL actors go: how many side by side, and what each reserves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envs.execution import Execution
from envs.training.actor_plan import Resources, actor_plan, fitting, refusal, total

if TYPE_CHECKING:
    from experiments.study.study import Study


@dataclass(frozen=True)
class Placement:
    """What trials reserve.

    `side_by_side` is the number of trials at a time, `execution` the federation settings that say who trains,
    `bundles` one bundle per FL actor of a trial, `gpu_share` of a trial that trains on a GPU itself.
    """

    side_by_side: int
    execution: dict[str, Any]
    bundles: list[dict[str, float]] = field(default_factory=list)
    gpu_share: float = 0.0


def place(study: Study, nodes: Sequence[Resources]) -> Placement:
    """How a study's trials fit onto `nodes`.

    Raises:
        ValueError: If not even one trial fits; the message says what it needs and what there is.
    """
    has = total(nodes)
    wanted = max(1, min(study.parallel_trials or int(has.cpus), study.num_trials))
    device = str(study.federation.get("device", "cpu"))
    plan = actor_plan(Execution(device=device, **study.execution), has, wanted)
    if plan is None:
        side_by_side = max(1, min(wanted, int(has.cpus)))
        gpu_share = min(1.0, has.gpus / side_by_side) if device.startswith("cuda") else 0.0
        return Placement(side_by_side, {"executor": "serial"}, gpu_share=gpu_share)
    if message := refusal(plan, nodes, "the Ray cluster"):
        raise ValueError(f"{message} (--num-actors, --cpus-per-actor, --gpus-per-actor)")
    execution = {
        "executor": "ray",
        "num_actors": plan.num_actors,
        "cpus_per_actor": plan.cpus_per_actor,
        "gpus_per_actor": plan.gpus_per_actor,
    }
    return Placement(min(wanted, fitting(plan, nodes) // plan.num_actors), execution, plan.bundles)
