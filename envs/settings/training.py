"""Settings of the local training of a federation's clients."""

from __future__ import annotations

from dataclasses import dataclass

from envs.settings.data import DataSettings
from envs.settings.setting import COUNT, FLAG, NATURAL, NOT_NEGATIVE, POSITIVE, choice, or_none, setting

OVERRUN = ("raise", "drop")
FEDAVG = "fedavg"


@dataclass(frozen=True)
class TrainingSettings(DataSettings):
    """What clients do in a round, and for how many rounds."""

    rounds: int = setting(200, NATURAL, "FL rounds of an episode, round 0 not counted.")
    local_epochs: int = setting(5, NATURAL, "Epochs that a selected client trains in a round.")
    batch_size: int | None = setting(None, or_none(NATURAL), "Local batch size; None for the data set's own.")
    lr: float | None = setting(None, or_none(POSITIVE), "Learning rate of the local SGD; None for the data set's own.")
    proximal_mu: float = setting(
        0.0, NOT_NEGATIVE, "Weight of FedProx's proximal term in the clients' loss (Li et al. 2020); 0 for none."
    )
    aggregation: str = setting(
        FEDAVG,
        choice((FEDAVG,), custom=True),
        """How the server makes the next model of the clients'. ``fedavg``: their mean, weighted by samples.
        ``MODULE:NAME`` is a function of ``(weights, clients, num_samples, state)``; see
        ``envs.training.server_step``.""",
    )
    on_client_failure: str = setting(
        "raise",
        choice(OVERRUN),
        """What happens if a client's training raises an error or becomes NaN: ``raise`` an error, or ``drop`` the
        client, which is not averaged and has not trained, but its energy is spent.""",
    )
    torch_threads: int = setting(
        1,
        NATURAL,
        """Threads in which a client is trained or evaluated, in this process and in each actor; another number changes
        results in the last bits. With several, give an actor as many ``cpus_per_actor``.""",
    )
    mixed_precision: bool = setting(False, FLAG, "Forward passes in bfloat16. Results differ slightly.")
    compile: bool = setting(
        False,
        FLAG,
        "Run the network through ``torch.compile``; the first round then takes long. Results differ slightly.",
    )
    seed: int = setting(0, COUNT, "Seed of an environment that is reset without one.")

    @property
    def local_batch_size(self) -> int:
        """Returns ``batch_size``, or the data set's own."""
        return self._defaults.batch_size if self.batch_size is None else self.batch_size

    @property
    def learning_rate(self) -> float:
        """Returns ``lr``, or the data set's own."""
        return self._defaults.lr if self.lr is None else self.lr
