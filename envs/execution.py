"""Who trains the clients, and with which resources."""

from __future__ import annotations

from dataclasses import dataclass

from envs.checks import number, one_of, positive, whole

EXECUTORS = ("auto", "serial", "ray")


@dataclass(frozen=True)
class Execution:
    """Fields of the same names in a federation, for which see ``FederationConfig``; validated on construction.

    Raises:
        ValueError: If a field is out of range, or two contradict each other; the message names them.
    """

    executor: str = "auto"
    num_actors: int | None = None
    cpus_per_actor: float = 1.0
    gpus_per_actor: float | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not isinstance(self.device, str):
            raise ValueError(f"device is {self.device!r}; it must be a text such as 'cpu' or 'cuda:0'")
        one_of("executor", self.executor, EXECUTORS)
        positive("cpus_per_actor", self.cpus_per_actor)
        if self.num_actors is not None:
            whole("num_actors", self.num_actors, least=1)
        gpus = self.gpus_per_actor
        if gpus is not None:
            number("gpus_per_actor", gpus)
            if not gpus >= 0 or (gpus > 1 and gpus != int(gpus)):
                raise ValueError(f"gpus_per_actor is {gpus}; it must be a share from 0 to 1 or a whole number")
        if self.executor == "serial" and (self.num_actors is not None or gpus is not None):
            raise ValueError("num_actors and gpus_per_actor are for executor='ray'; executor='serial' has no actors")
        if self.executor == "ray" and self.device != "cpu":
            raise ValueError(
                f"device is {self.device!r}, but executor='ray' trains on the GPUs that Ray assigns; leave device out"
            )
