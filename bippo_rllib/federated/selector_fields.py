"""What a selector's file may hold: types, shapes and ranges of all that is in it.

Files are checked when they are written and when they are read, so that a saved selector can be loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.baselines.oort import PACER_ROUNDS
from bippo_rllib.federated.rewards import is_reward
from bippo_rllib.fields import (
    BOOLEAN,
    KEY,
    NAMES,
    POSITIVE,
    PPO_FIELDS,
    PPO_OPTIONAL,
    SHARE,
    TEXT,
    Field,
    OrNone,
    Table,
    check_names,
    check_record,
    one_of,
    real,
    whole,
)
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.selection.budget_sampler import STRATEGIES
from bippo_rllib.selection.update_matching import RECENT

#: Counts that stay whole numbers in a float64.
_COUNT = whole(0, 2**53)
#: Of a file's format.
VERSION = 4
#: Numbers that one policy may take with all that belongs to it, 400 MB: each client without a policy gets one.
MOST_NUMBERS = 10**8

_GENERATOR: Table = {
    "bit_generator": one_of("PCG64"),
    "state": {"state": whole(0, 2**128 - 1), "inc": whole(0, 2**128 - 1)},
    "has_uint32": whole(0, 1),
    "uinteger": whole(0, 2**32 - 1),
}

FIELDS: Table = {
    "version": whole(VERSION, VERSION),
    "policy_ids": NAMES,
    "seed": whole(0, 2**64 - 1),
    "batch_size": whole(1, 10**6),
    "settings": {
        **{name: OrNone(field) if name in PPO_OPTIONAL else field for name, field in PPO_FIELDS.items()},
        "num_epochs": whole(1, 10**5),
        "use_critic": BOOLEAN,
    },
    "sampler": {
        "strategy": one_of(*STRATEGIES),
        "epsilon": SHARE,
        "epsilon_decay": real(0.0, 1.0, above=True),
        "epsilon_min": SHARE,
        "outside_odds": real(0.0),
        "set_weight": real(),
    },
    "sampler_state": {
        "epsilon": SHARE,
        "rng": _GENERATOR,
    },
    "prior": OrNone(
        {
            "key": KEY,
            "weight": real(),
            "gain": real(0.0),
            "only_lowers": BOOLEAN,
            "standardised": BOOLEAN,
            "clients": NAMES,
        }
    ),
    "matching": OrNone(
        {
            "key": KEY,
            "size_key": KEY,
            "length_penalty": real(0.0),
            "memory": real(0.0, math.nextafter(1.0, 0.0)),
            "clients": NAMES,
            "profile_size": OrNone(whole(1, MOST_NUMBERS)),
            "first_length": OrNone(real(0.0)),
            "num_recent": whole(0, RECENT),
            "past_size": real(0.0),
        }
    ),
    "ranking": OrNone({"key": KEY, "highest_first": BOOLEAN}),
    "cyclic": OrNone({"waiting": NAMES, "had_a_turn": NAMES, "rng": _GENERATOR}),
    "oort": OrNone(
        {
            "round": _COUNT,
            "exploration": SHARE,
            "pace": whole(0, 100),
            "clients": NAMES,
            "num_history": whole(0, 2 * PACER_ROUNDS),
            "rng": _GENERATOR,
        }
    ),
    "reward": OrNone({"name": Field("the name of a reward", is_reward), "base": POSITIVE, "target": SHARE}),
    "explore": BOOLEAN,
    "trains": OrNone(NAMES),
    "steps": _COUNT,
    "largest": real(0.0),
    "last_policy_ids": OrNone(NAMES),
}
#: Fields of a file without a selector, which has the reason.
REFUSAL_FIELDS: Table = {"version": whole(VERSION, VERSION), "refused": TEXT, "steps": _COUNT}


@dataclass(frozen=True)
class ArrayField:
    """One array.

    Attributes:
        dtype: Its type, as safetensors names it.
        shape: Of all of it.
        low: Lowest value.
        high: Highest value.
        finite: Whether infinity is refused.
        may_lack: Whether NaN, for a number that there is none of, may be in it.
    """

    dtype: str
    shape: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    finite: bool = True
    may_lack: bool = False

    def allows(self, array: np.ndarray) -> bool:
        """Whether all values are in range."""
        inside = (array >= self.low) & (array <= self.high)
        if self.finite:
            inside &= np.isfinite(array)
        return bool((inside | np.isnan(array) if self.may_lack else inside).all())


def check_fields(record: Any) -> None:
    """Checks a selector's record, or the record of a file without a selector.

    Raises:
        ValueError: Naming the first entry that it may not have, in one line.
    """
    refused = isinstance(record, Mapping) and "refused" in record
    check_record(record, REFUSAL_FIELDS if refused else FIELDS)
    if not refused and record["matching"] is not None:
        check_set_score_sampler(record["sampler"]["strategy"])


def check_set_score_sampler(strategy: str) -> None:
    """Raises a ValueError where the sampler's strategy cannot pick by a set score."""
    if strategy != "odds":
        raise ValueError(f"the sampler's strategy is {strategy!r}; update matching needs 'odds'")


def array_fields(record: Mapping[str, Any], weight_shape: tuple[int, ...]) -> dict[str, ArrayField]:
    """Returns the arrays that belong to a record, by name.

    Args:
        record: Checked by ``check_fields``.
        weight_shape: Of ``actor.0.weight``, ``[policies, hidden, obs_dim]``.

    Raises:
        ValueError: If there can be no such array, or policies would be too large; in one line.
    """
    num, batch = len(record["policy_ids"]), record["batch_size"]
    if len(weight_shape) != 3 or weight_shape[0] != num or 0 in weight_shape[1:]:
        raise ValueError(f"actor.0.weight has shape {list(weight_shape)}; expected [{num}, hidden, inputs]")
    _, hidden, obs_dim = weight_shape
    layout = ParameterLayout(obs_dim, hidden)
    size = layout.size
    if 3 * size + batch * (2 * obs_dim + 3) > MOST_NUMBERS:
        raise ValueError(
            f"a policy of {size} parameters and a batch of {batch} takes more than {MOST_NUMBERS} numbers; "
            "train smaller ones"
        )
    fields = _policy_arrays(layout, num, batch)
    if record["prior"] is not None:
        clients = len(record["prior"]["clients"])
        fields["prior.sums"] = ArrayField("F64", (clients,), 0.0)
        fields["prior.counts"] = ArrayField("I64", (clients,), 0, 2**53)
    if record["matching"] is not None:
        matching = record["matching"]
        fields["matching.profiles"] = ArrayField("F64", (len(matching["clients"]), matching["profile_size"] or 0))
        fields["matching.recent"] = ArrayField("F64", (matching["num_recent"],), 0.0)
        fields["matching.past"] = ArrayField("F64", (matching["profile_size"] or 0,))
    if record["oort"] is not None:
        clients = len(record["oort"]["clients"])
        fields["oort.utilities"] = ArrayField("F64", (clients,), 0.0)
        fields["oort.rounds"] = ArrayField("I64", (clients,), 1, max(1, record["oort"]["round"]))
        fields["oort.history"] = ArrayField("F64", (record["oort"]["num_history"],), 0.0)
    if record["last_policy_ids"] is not None:
        fields |= _last_arrays(len(record["last_policy_ids"]), obs_dim)
    return fields


def _policy_arrays(layout: ParameterLayout, num: int, batch: int) -> dict[str, ArrayField]:
    """Returns the arrays of ``num`` policies, their moments and the participations that wait, ``batch`` of each."""
    obs_dim = layout.obs_dim
    return {
        **{name: ArrayField("F32", (num, *shape)) for name, shape in layout.shapes.items()},
        "observation_high": ArrayField("F32", (obs_dim,), finite=False),
        "adam.exp_avg": ArrayField("F32", (num, layout.size)),
        "adam.exp_avg_sq": ArrayField("F32", (num, layout.size), 0.0),
        "adam.steps": ArrayField("I64", (num,), 0, 2**53),
        "buffer.counts": ArrayField("I64", (num,), 0, batch - 1),
        "buffer.observations": ArrayField("F32", (num, batch, obs_dim)),
        "buffer.next_observations": ArrayField("F32", (num, batch, obs_dim)),
        "buffer.log_probs": ArrayField("F32", (num, batch), high=0.0),
        "buffer.rewards": ArrayField("F32", (num, batch)),
        "buffer.ends": ArrayField("BOOL", (num, batch)),
    }


def _last_arrays(num: int, obs_dim: int) -> dict[str, ArrayField]:
    """Returns the arrays of the last round, of ``num`` policies."""
    return {
        "last.observations": ArrayField("F32", (num, obs_dim)),
        "last.log_probs": ArrayField("F32", (num,), high=0.0),
        "last.accuracies": ArrayField("F64", (num,), 0.0, 1.0, may_lack=True),
        "last.trained": ArrayField("BOOL", (num,)),
        "last.rewards": ArrayField("F32", (num,), may_lack=True),
        "last.removed": ArrayField("BOOL", (num,)),
    }


def check_headers(headers: Mapping[str, tuple[str, tuple[int, ...]]], fields: Mapping[str, ArrayField]) -> None:
    """Checks types and shapes, name -> (type, shape), before anything is read.

    Raises:
        ValueError: Naming the first array that is missing, unknown or another, in one line.
    """
    check_names(headers, fields, "the file")
    for name, field in fields.items():
        dtype, shape = headers[name]
        if (dtype, tuple(shape)) != (field.dtype, field.shape):
            raise ValueError(f"{name} is {dtype} of shape {list(shape)}; expected {field.dtype} {list(field.shape)}")


def check_arrays(arrays: Mapping[str, np.ndarray], fields: Mapping[str, ArrayField]) -> None:
    """Checks the values of arrays.

    Raises:
        ValueError: Naming the first array with a number that it may not have, in one line.
    """
    for name, field in fields.items():
        if not field.allows(arrays[name]):
            raise ValueError(f"{name} has numbers that are not finite or out of range")
