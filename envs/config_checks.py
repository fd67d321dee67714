"""What the fields of a ``FederationConfig`` may hold; every error is one line that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.checks import flag, not_negative, number, one_of, one_per_client, optional_path, positive, share, whole
from envs.dataset_defaults import DATASET_DEFAULTS
from envs.rules.device_change import DeviceChange
from envs.rules.reward import REWARDS

if TYPE_CHECKING:
    from envs.config import FederationConfig

PARTITIONS = ("paper", "dirichlet_over_clients", "dirichlet_over_labels")
OVERRUN = ("raise", "drop")
MODELS = ("digits_cnn", "cnn", "cnn_small_color", "resnet18")
#: Fields that may hold nothing but a tuple, and of what.
_TUPLES_OF = {
    "late_labels": "numbers of labels, one for each client that joins late",
    "churn": "ChurnEvent(round, client, 'join' or 'leave')",
    "device_changes": "DeviceChange(round, client, cpu_freq_hz)",
}


def check_fields(config: FederationConfig) -> None:
    """Every field but ``churn``, which its schedule checks. Lists must have been made tuples.

    Raises:
        ValueError: If a field is out of range.
    """
    _check_choices(config)
    _check_numbers(config)
    for name, held in _TUPLES_OF.items():
        if not isinstance(getattr(config, name), tuple):
            raise ValueError(f"{name} is {getattr(config, name)!r}; it must be a tuple of {held}")
    _check_clients(config)
    for change in config.device_changes:
        _check_change(config, change)


def _check_choices(config: FederationConfig) -> None:
    one_of("dataset", config.dataset, DATASET_DEFAULTS)
    one_of("model", config.model_name, MODELS)
    one_of("partition", config.partition, PARTITIONS)
    one_of("reward", config.reward, REWARDS)
    one_of("on_overrun", config.on_overrun, OVERRUN)
    one_of("on_client_failure", config.on_client_failure, OVERRUN)
    for name in ("with_loss", "mixed_precision", "compile"):
        flag(name, getattr(config, name))
    for name in ("data_dir", "churn_trace"):
        optional_path(name, getattr(config, name))


def _check_numbers(config: FederationConfig) -> None:
    for name in ("num_clients", "rounds", "local_epochs"):
        whole(name, getattr(config, name), least=1)
    whole("batch_size", config.local_batch_size, least=1)
    whole("seed", config.seed, least=0)
    positive("lr", config.learning_rate)
    for name in ("alpha", "reward_base", "budget_share"):
        positive(name, getattr(config, name))
    not_negative("probing_epochs", config.probing_epochs)
    share("reward_target", config.reward_target)
    if config.budget_j is not None:
        number("budget_j", config.budget_j)
        if not config.budget_j >= 0.0:
            raise ValueError(f"budget_j is {config.budget_j}; it must be at least 0 (math.inf for no limit)")


def _check_clients(config: FederationConfig) -> None:
    """Fields that may hold one value per client."""
    for name in ("train_samples", "test_samples"):
        value = getattr(config, name)
        if value is not None:
            for size in one_per_client(name, value, config.num_clients) if isinstance(value, tuple) else (value,):
                whole(name, size, least=1)
    if config.partition == "dirichlet_over_clients" and isinstance(config.train_samples, tuple):
        raise ValueError("train_samples must be one number, the mean, with partition='dirichlet_over_clients'")
    _check_late_labels(config)
    if config.cpu_freq_hz is not None:
        for freq_hz in one_per_client("cpu_freq_hz", config.cpu_freq_hz, config.num_clients):
            positive("cpu_freq_hz", freq_hz)


def _check_late_labels(config: FederationConfig) -> None:
    if not config.late_labels:
        return
    for number_of_labels in config.late_labels:
        whole("late_labels", number_of_labels, least=1)
    if config.partition != "paper":
        raise ValueError(f"late_labels is given with partition={config.partition!r}; it goes with 'paper' only")
    if len(config.late_labels) >= config.num_clients:
        raise ValueError(
            f"late_labels is for {len(config.late_labels)} clients of {config.num_clients}; leave at least one other"
        )
    if config.cpu_freq_hz is None:
        raise ValueError("late_labels is given without cpu_freq_hz; say which devices all clients have")


def _check_change(config: FederationConfig, change: DeviceChange) -> None:
    if not isinstance(change, DeviceChange):
        raise ValueError(f"device_changes holds {change!r}; it must hold DeviceChange(round, client, cpu_freq_hz)")
    whole(f"round of {change}", change.round, least=1)
    whole(f"client of {change}", change.client, least=0)
    if change.round > config.rounds or change.client >= config.num_clients:
        raise ValueError(
            f"{change} is outside the run; rounds go from 1 to {config.rounds}, "
            f"clients from 0 to {config.num_clients - 1}"
        )
    positive("cpu_freq_hz of a DeviceChange", change.cpu_freq_hz)
