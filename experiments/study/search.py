"""``--search key=expression``: parsed without running anything; settings are drawn before the study starts.

A resumed search tries the same settings.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from experiments.results.naming import unknown_name
from experiments.study.settings import check_no_flag, key_values, with_absolute_trace

_DISTRIBUTIONS = ("uniform", "loguniform", "randint", "lograndint", "randn")
SEARCH_FUNCTIONS = ("choice", "grid_search", *_DISTRIBUTIONS, *(f"q{name}" for name in _DISTRIBUTIONS))
_EXAMPLE_SEARCH = '--search "lr=loguniform(1e-4,1e-2)"'
#: Each draw is a trial for every method and seed.
MOST_DRAWS = 10_000


def parse_search(items: Sequence[str]) -> dict[str, str]:
    """Parses ``["lr=loguniform(1e-4,1e-2)"]`` to ``{"lr": "loguniform(1e-4,1e-2)"}``.

    Raises:
        ValueError: As ``parse_settings``, and for an expression that is not a call of one of Tune's functions.
    """
    pairs = key_values("--search", items, _EXAMPLE_SEARCH)
    for key, expression in pairs.items():
        _parse_call(key, expression)
    return pairs


def check_recorded(settings: Mapping[str, Any], search: Mapping[str, str], draws: Sequence[Mapping[str, Any]]) -> None:
    """Checks recorded settings as if they had been typed, and that draws have the keys of the search.

    Raises:
        ValueError: As ``parse_settings`` and ``parse_search``, and for a draw of other keys.
    """
    for key, value in settings.items():
        check_no_flag("--set", key, value)
    parse_search([f"{key}={expression}" for key, expression in search.items()])
    for draw in draws:
        if draw.keys() != search.keys():
            raise ValueError(f"a draw has {', '.join(draw) or 'nothing'}, but the search is of {', '.join(search)}")


def drawn_settings(search: Mapping[str, str], num_samples: int, seed: int) -> tuple[dict[str, Any], ...]:
    """Returns the settings to try, in order; the same draws every time.

    Args:
        search: Tune expression by key, as in ``--search``.
        num_samples: Number of draws; each is tried with all values of every ``grid_search``.
        seed: Seed of the draws.

    Raises:
        ValueError: For an expression that Tune refuses, and for more than ``MOST_DRAWS`` settings.
    """
    from ray.tune.search.variant_generator import generate_variants

    space = {key: sampling_domain(key, expression) for key, expression in search.items()}
    rng = np.random.default_rng(seed)
    variants = (
        drawn
        for _ in range(num_samples)
        for _, drawn in generate_variants(space, constant_grid_search=True, random_state=rng)
    )
    settings = tuple(
        with_absolute_trace(
            {key: value.item() if isinstance(value, np.generic) else value for key, value in drawn.items()}
        )
        for drawn in islice(variants, MOST_DRAWS + 1)
    )
    if len(settings) > MOST_DRAWS:
        raise ValueError(f"a search of more than {MOST_DRAWS:,} settings; lower --num-samples or search less")
    return settings


def _parse_call(key: str, expression: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Returns function name, arguments and keywords of ``name(literals)``; only literals are evaluated."""
    problem = f"--search {key}={expression}: expected one of Tune's functions ({', '.join(SEARCH_FUNCTIONS)})"
    try:
        call = ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{problem}, such as {_EXAMPLE_SEARCH}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{problem}, such as {_EXAMPLE_SEARCH}")
    if call.func.id not in SEARCH_FUNCTIONS:
        raise ValueError(f"--search {key}: {unknown_name('function', call.func.id, SEARCH_FUNCTIONS)}")
    try:
        arguments = [ast.literal_eval(node) for node in call.args]
        keywords = {str(node.arg): ast.literal_eval(node.value) for node in call.keywords}
        if any(isinstance(argument, set | dict) for argument in (*arguments, *keywords.values())):
            raise ValueError  # their order, and so the draws, would differ from run to run
    except (ValueError, TypeError):
        raise ValueError(f"--search {key}={expression}: arguments must be plain numbers, texts or lists") from None
    return call.func.id, arguments, keywords


def sampling_domain(key: str, expression: str) -> Any:
    """Returns the Tune search space of an expression.

    Raises:
        ValueError: If Tune refuses its arguments.
    """
    from ray import tune

    name, arguments, keywords = _parse_call(key, expression)
    function = getattr(tune, name)
    try:
        _check_order(name, inspect.signature(function).bind(*arguments, **keywords))
        domain = function(*arguments, **keywords)
        _draw_once(domain)
    except ZeroDivisionError:
        raise ValueError(f"--search {key}={expression}: the step (the last argument) must be above 0") from None
    except (TypeError, ValueError, AssertionError, IndexError) as error:
        raise ValueError(f"--search {key}={expression}: {error or type(error).__name__}") from None
    return domain


def _check_order(name: str, given: inspect.BoundArguments) -> None:
    """Raises a ValueError with the expression that was meant, where the bounds are in the wrong order."""
    low, high = (given.arguments.get(bound) for bound in ("lower", "upper"))
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        given.arguments.update(lower=high, upper=low)
        texts = [*map(repr, given.args), *(f"{key}={value!r}" for key, value in given.kwargs.items())]
        raise ValueError(f"the lower bound comes first: {name}({','.join(texts)})")


def _draw_once(domain: Any) -> None:
    """Makes Tune check the arguments that it checks only when it draws."""
    choices = domain["grid_search"] if isinstance(domain, dict) else getattr(domain, "categories", None)
    if choices is not None and not len(choices):
        raise ValueError("there is nothing in the list; name at least one value")
    if choices is None:
        domain.sample(random_state=0)
