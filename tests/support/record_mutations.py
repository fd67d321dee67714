"""A record of a study with something odd in it: any value in any place, a key less or more, or damaged bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

#: What no field of a record should hold, or at least not all of them.
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**9, 2**63, 10**400, -(10**400), 0.5, 1e308, float("inf"), float("-inf"), float("nan"),
    "", "x", "os:system", "../../etc", "/dev/zero", "C:\\x", "\x00", "é\x1b[31m", "choice([1])", "grid_search([1, 2])",
    "__import__('os')", "(" * 10_000, "1" * 5_000, [], [[]], [1] * 1_000, ["bippo", "bippo"], {}, {"x": 1},
    {"env.model": "os:system"}, {"lr": None}, {"env.num_clients": 10**12}, {"env.rounds": 5}, {"hidden_size": 10**12},
    {"bippo": "os:system"}, [{"lr": "0.1"}], [{"env.model": "'os:system'"}], [0, "7"],
)  # fmt: skip


_NEW_KEYS = ("x", "env_config", "scenario", "lr", "env.model", "env.dataset")


def mutated(record: dict[str, Any], rng: random.Random) -> bytes:
    """``record`` as JSON with one to three changes."""
    changed = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _change(changed, rng)
    text = json.dumps(changed, indent=rng.choice((None, 2))).encode()
    damage = rng.random()
    if damage < 0.05:
        return text[: rng.randrange(len(text))]
    if damage < 0.1:
        place = rng.randrange(len(text))
        return text[:place] + rng.randbytes(rng.randrange(1, 4)) + text[place + 1 :]
    return text


def _change(record: dict[str, Any], rng: random.Random) -> None:
    holders = [record, *_holders(record)]
    holder = rng.choice(holders) if rng.random() < 0.6 else record
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    what = rng.random()
    if not keys or what < 0.05:
        if isinstance(holder, dict):
            holder[rng.choice(_NEW_KEYS)] = rng.choice(ODD_VALUES)
        else:
            holder.append(rng.choice(ODD_VALUES))
    elif what < 0.15:
        del holder[rng.choice(keys)]
    else:
        holder[rng.choice(keys)] = copy.deepcopy(rng.choice(ODD_VALUES))


def _holders(value: Any) -> list[Any]:
    """All lists and dicts within, the outermost left out."""
    entries = value.values() if isinstance(value, dict) else value
    found = [entry for entry in entries if isinstance(entry, dict | list)]
    return [*found, *(inner for entry in found for inner in _holders(entry))]
