"""The columns of a row: what a trial records of each round."""

from __future__ import annotations

import math
import sys
from functools import partial

import pyarrow as pa

from experiments.results.table_checks import MOST_CLIENTS, Column

_text = partial(Column, dtype=pa.string())
_whole = partial(Column, dtype=pa.int64())
_number = partial(Column, dtype=pa.float64())
_joules = partial(_number, unit="J")
_ids = partial(Column, dtype=pa.list_(pa.int64()), most=MOST_CLIENTS - 1)
#: A number for each live client.
_numbers = partial(Column, dtype=pa.list_(pa.float64()))
#: Of a policy's part in it, which older files and some methods do not have.
_policy = partial(_numbers, may_be_null=True, may_be_missing=True)
#: The least finite number.
_LEAST = -sys.float_info.max

COLUMNS: tuple[Column, ...] = (
    _text("scenario", "named setting, see experiments/scenarios.py"),
    _text("method", "client selection method, see experiments/methods.py"),
    _whole("seed", "seed of data draws, initial weights, shuffles and selection", most=2**32 - 1),
    _text("trial", "name of the trial's folder"),
    _text("setting", "searched hyperparameters of this trial, empty outside a search"),
    _whole("round", "FL round, from 1; round 0 (all clients, one epoch) has no row", least=1),
    _number(
        "mean_accuracy", "unweighted mean of all live clients' accuracy after the round", unit="share of 1", most=1.0
    ),
    _number(
        "reward", "the team's reward for the round; with leave_one_out or shapley the participants' mean", least=_LEAST
    ),
    _joules("energy_j", "energy spent: by clients that trained or failed to, and on what is charged beside that"),
    _joules("budget_j", "energy budget of the round", most=math.inf),
    _whole("num_clients", "clients live in the round"),
    _whole("num_trained", "clients that trained in the round"),
    _ids("trained", "ids of the clients that trained, ascending; agent client_003 is client 3"),
    _ids("failed", "ids of clients whose training failed (on_client_failure=drop)"),
    _ids("clients", "ids of the live clients, in whose order the other lists are"),
    _numbers("costs_j", "energy each live client would need for the round", unit="J"),
    _joules("probing_j", "part of energy_j spent on probing; see docs/methods.md"),
    _joules("selection_j", "part of energy_j spent on selecting and learning, at env.joules_per_mac", may_be_null=True),
    _joules(
        "measured_j",
        "what env.energy_meter read while clients trained; null if it read nothing or not all of it",
        may_be_null=True,
    ),
    _numbers("accuracies", "each live client's accuracy after the round", unit="share of 1", most=1.0),
    _policy(
        "suggestions",
        "probability with which each live client's policy suggested to take part",
        unit="share of 1",
        most=1.0,
    ),
    _policy(
        "scores",
        "what the sampler selected by: the suggestions, or what the method made of them; -inf is no candidate",
        least=-math.inf,
        most=math.inf,
    ),
    _policy(
        "rewards",
        "each live client's reward: the team's, or where participants have their own, 0 for all others",
        least=_LEAST,
    ),
    _number("epsilon", "the sampler's epsilon in the round; NaN for methods without one", most=1.0, may_be_nan=True),
    _number("fl_seconds", "wall time of training, aggregation and evaluation", unit="s"),
    _number("rl_seconds", "wall time of algo.train() outside the environment", unit="s"),
)
COLUMN_NAMES = tuple(column.name for column in COLUMNS)
NUMBER_COLUMNS = tuple(column.name for column in COLUMNS if column.dtype in (pa.int64(), pa.float64()))
#: What clocks and meters read: with the formula's energy the only columns in which two runs of a trial may differ.
TIMING_COLUMNS = ("fl_seconds", "rl_seconds", "measured_j")
#: Columns in which all rows of a trial are equal.
OF_THE_TRIAL = ("scenario", "method", "seed", "trial", "setting")
SCHEMA = pa.schema([column.field() for column in COLUMNS])
