"""Finds the sizes, the number of clients and the share of the budget with which a federation fits its data."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.checks import Shortage
from envs.config import FederationConfig, config_from, unread
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.federation import Federation

logger = logging.getLogger(__name__)

#: Settings that may follow from the data.
FITTED = ("num_clients", "train_samples", "test_samples", "budget_share")
#: Samples of a client that are enough to keep it.
ENOUGH = {"train_samples": 20, "test_samples": 5}
#: The paper's clients, of which a round's budget pays about two.
_PAPER_CLIENTS = 20


@dataclass
class Fit:
    """What to change of a federation so that it fits, and why."""

    changes: dict[str, Any] = field(default_factory=dict)  #: Values of settings.
    shortages: list[Shortage] = field(default_factory=list)  #: One for each thing there is too little of.

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.changes.items())


class NothingFits(Shortage):
    """No federation fits the data or the budget as long as what is given stays; ``fit`` has what would."""

    def __init__(self, fit: Fit) -> None:
        super().__init__(f"{'; '.join(map(str, fit.shortages))}. These fit: {fit}")
        self.fit = fit


def fit(settings: Mapping[str, Any], free: Collection[str] = FITTED) -> Fit:
    """Finds values for the settings in ``free``; those that are not needed stay as they are.

    Args:
        settings: Keywords of ``FederationConfig``.
        free: Names out of ``FITTED``.

    Raises:
        Shortage: If no values fit.
        ValueError: If a setting is wrong otherwise.
    """
    result = Fit()
    free = [name for name in free if name not in unread({**settings, name: 1})]
    try:
        _assign(config_from(**settings))
    except Shortage as shortage:
        result.shortages.append(shortage)
        # One test sample a client leaves the shortage of training samples alone, which is found out first.
        one_each = {"test_samples": 1}
        one_each = {} if unread({**settings, **one_each}).keys() & one_each.keys() else one_each
        _fit_samples(result, settings, free, "train_samples", one_each)
        _fit_samples(result, settings, free, "test_samples", {})
    _fit_budget(result, settings, free)
    return result


def _fit_samples(
    result: Fit, settings: Mapping[str, Any], free: Collection[str], split: str, others: Mapping[str, Any]
) -> None:
    base = {**settings, **result.changes}
    try:
        _assign(config_from(**{**base, **others}))
    except Shortage as shortage:
        if not any(split.removesuffix("_samples") in known.splits for known in result.shortages):
            result.shortages.append(shortage)
        for changes in _fewer(config_from(**base), free, split):
            try:
                _assign(config_from(**{**base, **changes, **others}))
            except ValueError:  # too little still, or a setting that names one of the clients that are left out
                continue
            result.changes |= changes
            return
        raise


def _fewer(config: FederationConfig, free: Collection[str], split: str) -> Iterator[dict[str, Any]]:
    """Fewer samples for each client, down to what is enough, then fewer clients as well."""
    sizes = config.train_sizes if split == "train_samples" else config.test_sizes
    fewest = 1 if "num_clients" in free and config.cpu_freq_hz is None else config.num_clients
    enough = ENOUGH[split] if fewest == 1 else 1
    for num_clients in range(config.num_clients, fewest - 1, -1):
        clients = {"num_clients": num_clients} if num_clients < config.num_clients else {}
        if clients:
            yield clients
        size = max(sizes)
        while split in free and size > enough:
            size = max(enough, min(size - 1, int(0.96 * size)))
            yield {**clients, split: size}


def _fit_budget(result: Fit, settings: Mapping[str, Any], free: Collection[str]) -> None:
    base = {**settings, **result.changes}
    try:
        Federation(config_from(**base))
    except Shortage as shortage:
        result.shortages.append(shortage)
        is_free = "budget_share" in free and base.get("budget_j") is None
        share = FederationConfig.budget_share * _PAPER_CLIENTS / config_from(**base).num_clients
        for candidate in (round(min(1.0, share), 3), 1.0) if is_free else ():
            try:
                Federation(config_from(**{**base, "budget_share": candidate}))
            except Shortage:
                continue
            result.changes["budget_share"] = candidate
            return
        raise


def _assign(config: FederationConfig) -> None:
    Partition.of(config, load_dataset(config.dataset, config.data_dir), config.seed)


def fitting_settings(settings: Mapping[str, Any], given: Collection[str] | None = None) -> dict[str, Any]:
    """Returns values for settings that are not given, with which the federation fits; nothing if it fits as it is.

    Args:
        settings: Keywords of ``FederationConfig``.
        given: Names of those that must stay; None for all.

    Raises:
        NothingFits: If something given has to change.
        ValueError: If a setting is wrong otherwise.
    """
    fixed = settings.keys() if given is None else given
    try:
        return fit(settings, [name for name in FITTED if name not in fixed]).changes
    except Shortage:
        raise NothingFits(fit(settings)) from None


def fitting_config(settings: Mapping[str, Any]) -> FederationConfig:
    """Returns the federation of ``settings`` and of what follows from the data, which one line says.

    Args:
        settings: Keywords of ``FederationConfig``, all of which stay.

    Raises:
        NothingFits: If something given has to change.
        ValueError: If a setting is wrong otherwise.
    """
    changes = fitting_settings(settings)
    logger.warning("these follow from the data: %s", Fit(changes))
    return config_from(**settings, **changes)
