"""What the fields of a ``FederationConfig`` may hold; every error is one line that names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from envs.checks import flag, not_negative, number, one_of, one_per_client, optional_path, positive, share, whole
from envs.dataset_defaults import DATASET_DEFAULTS
from envs.imports import check_import, is_import
from envs.rules.device_change import check_changes
from envs.rules.reward import REWARDS

Check = Callable[[str, Any], None]

_DIRICHLET = ("dirichlet_over_clients", "dirichlet_over_labels")
PARTITIONS = ("paper", *_DIRICHLET, "shards", "iid")
#: Which partitions read a setting that not all of them read.
_READ_BY = {"alpha": _DIRICHLET, "shards_per_client": ("shards",), "late_labels": ("paper",)}
#: Partitions that make the clients' sizes of one number.
_OF_ONE_SIZE = {"dirichlet_over_clients": "one number, the mean,", "shards": "one number"}
OVERRUN = ("raise", "drop")
FORMULA = "formula"
METERS = (FORMULA, "nvml", "rapl")
MODELS = ("digits_cnn", "cnn", "cnn_small_color", "resnet18")


def check_fields(fields: Mapping[str, Any]) -> None:
    """Checks every field but those of ``Execution`` and the events of ``churn``. Lists must have been made tuples.

    Raises:
        ValueError: If a field is out of range.
    """
    for name, check in _CHECKS.items():
        check(name, fields[name])
    num_clients = fields["num_clients"]
    for name in ("train_samples", "test_samples"):
        value = fields[name]
        for size in one_per_client(name, value, num_clients) if isinstance(value, tuple) else (value,):
            _natural_or_none(name, size)
    _check_partition(fields)
    if fields["late_labels"]:
        _check_late_labels(fields["late_labels"], num_clients, fields["cpu_freq_hz"])
    _check_noisy_clients(fields["noisy_clients"], num_clients)
    if fields["cpu_freq_hz"] is not None:
        for freq_hz in one_per_client("cpu_freq_hz", fields["cpu_freq_hz"], num_clients):
            positive("cpu_freq_hz", freq_hz)
    check_changes(fields["device_changes"], num_clients, fields["rounds"])
    if fields["device_changes"] and fields["energy_meter"] != FORMULA:
        raise ValueError(
            f"device_changes is given with energy_meter={fields['energy_meter']!r}, which reads the machine that "
            "trains, whatever a client's cpu_freq_hz is; leave one of them out"
        )


def _or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _tuple_of(what: str) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, tuple):
            raise ValueError(f"{name} is {value!r}; it must be a tuple of {what}")

    return check


def _one_of_ours_or_own(choices: Iterable[str]) -> Check:
    return lambda name, value: check_import(name, value) if is_import(value) else one_of(name, value, choices)


def _budget(name: str, value: Any) -> None:
    number(name, value)
    if not value >= 0.0:
        raise ValueError(f"{name} is {value}; it must be at least 0 (math.inf for no limit)")


def _alpha(name: str, value: Any) -> None:
    positive(name, value)
    if value > 1e9:  # beyond it shares differ by rounding alone, and at last the draws overflow
        raise ValueError(f"{name} is {value!r}; it must be at most 1e9, where all shares are equal")


def _selector_macs(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"{name} is {value!r}; it must be two numbers, for each live client and for each that trains")
    for macs in value:
        not_negative(name, macs)


_natural: Check = partial(whole, least=1)
_natural_or_none = _or_none(_natural)

_CHECKS: Mapping[str, Check] = {
    "dataset": _one_of_ours_or_own(DATASET_DEFAULTS),
    "data_dir": optional_path,
    "model": _or_none(_one_of_ours_or_own(MODELS)),
    "num_clients": _natural,
    "partition": partial(one_of, choices=PARTITIONS),
    "alpha": _or_none(_alpha),
    "shards_per_client": _natural_or_none,
    "late_labels": _tuple_of("numbers of labels, one for each client that joins late"),
    "noisy_clients": _tuple_of("client ids"),
    "label_noise": share,
    "device_changes": _tuple_of("DeviceChange(round, client, cpu_freq_hz)"),
    "churn": _tuple_of("ChurnEvent(round, client, 'join' or 'leave')"),
    "churn_trace": optional_path,
    "rounds": _natural,
    "local_epochs": _natural,
    "batch_size": _natural_or_none,
    "lr": _or_none(positive),
    "budget_share": positive,
    "budget_j": _or_none(_budget),
    "probing_epochs": not_negative,
    "joules_per_mac": not_negative,
    "selector_macs": _selector_macs,
    "energy_meter": _one_of_ours_or_own(METERS),
    "reward": partial(one_of, choices=REWARDS),
    "reward_base": positive,
    "reward_target": share,
    "credit_clients": _natural_or_none,
    "shapley_pairs": _natural,
    "with_loss": flag,
    "with_label_counts": flag,
    "update_profile_size": partial(whole, least=0),
    "with_output_bias": flag,
    "with_update_norm": flag,
    "on_overrun": partial(one_of, choices=OVERRUN),
    "seed": partial(whole, least=0),
    "on_client_failure": partial(one_of, choices=OVERRUN),
    "torch_threads": _natural,
    "mixed_precision": flag,
    "compile": flag,
}


def check_shards(shards_per_client: int, train_samples: int) -> None:
    """Checks that every shard has a sample.

    Raises:
        ValueError: If a client has fewer samples than shards.
    """
    if shards_per_client > train_samples:
        raise ValueError(
            f"shards_per_client is {shards_per_client} and a client has {train_samples} training samples; lower "
            "shards_per_client or raise train_samples"
        )


def _check_partition(fields: Mapping[str, Any]) -> None:
    partition = fields["partition"]
    for name, readers in _READ_BY.items():
        if fields[name] and partition not in readers:
            known = " and ".join(map(repr, readers))
            raise ValueError(f"{name} is given with partition={partition!r}; it goes with {known} only")
    if partition in _OF_ONE_SIZE and isinstance(fields["train_samples"], tuple):
        raise ValueError(f"train_samples must be {_OF_ONE_SIZE[partition]} with partition={partition!r}")


def _check_late_labels(late_labels: tuple[Any, ...], num_clients: int, cpu_freq_hz: Any) -> None:
    for number_of_labels in late_labels:
        whole("late_labels", number_of_labels, least=1)
    if len(late_labels) >= num_clients:
        raise ValueError(f"late_labels is for {len(late_labels)} clients of {num_clients}; leave at least one other")
    if cpu_freq_hz is None:
        raise ValueError("late_labels is given without cpu_freq_hz; say which devices all clients have")


def _check_noisy_clients(clients: tuple[Any, ...], num_clients: int) -> None:
    for client in clients:
        whole("noisy_clients", client, least=0)
        if client >= num_clients:
            raise ValueError(f"noisy_clients holds {client}; clients go from 0 to {num_clients - 1}")
    if len(set(clients)) < len(clients):
        raise ValueError(f"noisy_clients is {clients}; name each client once")
