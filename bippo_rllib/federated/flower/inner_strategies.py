"""The strategies inside a ``BudgetedStrategy``, of which some add noise for a number of clients."""

from __future__ import annotations

from typing import Any

from flwr.serverapp.strategy import Strategy


def inner_strategies(strategy: Strategy) -> list[Strategy]:
    """Returns the strategy and those inside it, outermost first; Flower's wrappers keep them as ``strategy``."""
    found = [strategy]
    while isinstance(inner := getattr(found[-1], "strategy", None), Strategy):
        found.append(inner)
    return found


def adds_noise(strategy: Strategy) -> bool:
    """Returns whether it is one of Flower's wrappers for differential privacy, or one like them."""
    return hasattr(strategy, "num_sampled_clients")


def set_num_clients(strategy: Strategy, count: int) -> None:
    """Sets for how many clients the wrappers for differential privacy add noise.

    The noise on a mean is noise multiplier times clipping norm divided by the number of clients. The wrappers expect
    the same number in every round; under a budget it differs from round to round.
    """
    for inner in inner_strategies(strategy):
        if adds_noise(inner):
            wrapper: Any = inner
            wrapper.num_sampled_clients = count
