"""How many trials of a study run side by side, and which resources each reserves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from envs.checks import SettingError
from envs.settings.energy import FORMULA
from envs.settings.execution import Execution
from envs.training.actor_plan import Resources, actor_plan, fitting, refusal, shared_meter, total
from experiments.study.study import Study


@dataclass(frozen=True)
class Placement:
    """How trials run, and what each reserves."""

    side_by_side: int  #: Trials at a time.
    execution: Execution  #: Who trains, with no value left open.
    bundles: list[dict[str, float]] = field(default_factory=list)  #: One per FL actor of a trial.
    gpu_share: float = 0.0  #: Share of a GPU of a trial that trains on one without actors.


def place(study: Study, nodes: Sequence[Resources]) -> Placement:
    """Returns how a study's trials fit onto ``nodes``.

    Raises:
        ValueError: If not even one trial fits; the message has what it needs and what is available. If the energy meter
            would count several trainings as one.
    """
    has, execution = total(nodes), study.placed_execution
    wanted = max(1, min(study.parallel_trials or int(has.cpus), len(study.trials)))
    plan = actor_plan(execution, has, wanted)
    if plan is None:
        _check_nothing_for_actors(execution)
        if execution.device.startswith("cuda:") and execution.device != "cuda:0":
            raise SettingError("device", execution.device, "Ray gives each trial one GPU, its only one: use cuda")
        side_by_side = max(1, min(wanted, int(has.cpus)))
        gpu_share = min(1.0, has.gpus / side_by_side) if execution.device.startswith("cuda") else 0.0
        _check_meter(study, side_by_side, gpu_share)
        return Placement(side_by_side, Execution("serial", device=execution.device), gpu_share=gpu_share)
    if message := refusal(plan, nodes, "the Ray cluster"):
        raise ValueError(f"{message}; lower --num-actors, --cpus-per-actor or --gpus-per-actor, or give it more")
    decided = replace(execution, executor="ray", **asdict(plan))
    side_by_side = min(wanted, fitting(plan, nodes) // plan.num_actors)
    _check_meter(study, side_by_side * plan.num_actors, plan.gpus_per_actor)
    return Placement(side_by_side, decided, plan.bundles)


def _check_nothing_for_actors(execution: Execution) -> None:
    for name in ("num_actors", "cpus_per_actor", "gpus_per_actor"):
        value = getattr(execution, name)
        if value and value != getattr(Execution, name):  # gpus_per_actor=0 is how to train without GPUs
            why = f"executor={execution.executor!r} trains without actors here; use executor='ray', or leave it out"
            raise SettingError(name, value, why)


def _check_meter(study: Study, at_once: int, gpu_share: float) -> None:
    if problem := shared_meter(study.federation.get("energy_meter", FORMULA), at_once, gpu_share):
        raise ValueError(
            f"{problem}; use --parallel-trials 1 and, with FL actors, --num-actors 1 or whole GPUs (--gpus-per-actor 1)"
        )
