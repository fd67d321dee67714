"""Wherever numbers are read: all kinds are, and anything else is refused in one line that names who gave it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from bippo_rllib.baselines.hics import HiCS
from bippo_rllib.baselines.label_balance import LabelBalance
from bippo_rllib.baselines.rule import numbers
from bippo_rllib.federated.reports import checked_budget, checked_number, checked_vector
from bippo_rllib.selection.connector_columns import info_values
from bippo_rllib.selection.update_matching import UpdateMatching


def infos(key, given, good, **others):
    return {"ann": {key: good, **others}, "bob": {key: given, **others}}


def profiles(given):
    score, found = UpdateMatching(), infos("update_profile", given, [1.0, 2.0], num_samples=1.0)
    score.observe(list(found), list(found.values()))
    return score.get_state()["profiles"]["bob"]


def sizes(given):
    score, found = UpdateMatching(), infos("num_samples", given, 1.0, update_profile=[1.0, 2.0])
    score.observe(list(found), list(found.values()))
    return given


def label_counts(given):
    score, found = LabelBalance(), infos("label_counts", given, [1.0, 2.0])
    score.observe(list(found), list(found.values()))
    return given


def bias_updates(given):
    rule, found = HiCS(rounds=10), infos("output_bias_update", given, [1.0, 2.0])
    rule.observe(list(found), list(found.values()))
    return rule.get_state()["updates"]["bob"]


ONE = {
    "info_values": lambda given: info_values(infos("x", given, 1.0), ["ann", "bob"], "x", "info_keys(cost=...)")[1],
    "numbers": lambda given: numbers(["ann", "bob"], list(infos("x", given, 1.0).values()), "x", "the rule needs")[1],
    "sizes": sizes,
    "report": lambda given: checked_number("bob", given, "x"),
    "budget": checked_budget,
}
ROW = {
    "profiles": profiles,
    "label_counts": label_counts,
    "bias_updates": bias_updates,
    "report": lambda given: checked_vector("bob", given, "x", 2),
}
NUMBERS = [
    3,
    3.0,
    np.float32(3),
    np.int8(3),
    np.array(3.0),
    torch.tensor(3.0),
    torch.tensor(3),
    Fraction(3),
    Decimal(3),
]
IN_A_ROW = [[3, 3], (3.0, 3.0), np.full(2, 3, np.int8), torch.full((2,), 3.0), [Fraction(3), Decimal(3)]]
TEXTS = ["3", b"3", np.str_("3"), np.bytes_(b"3"), np.array("3"), "many"]
NEITHER = [None, {}, 3j, np.complex64(3j), torch.tensor(3j), np.datetime64(3, "s"), ..., 10**400]
ROWS = [[3.0], [1.0, 2.0, 3.0], [], np.ones((2, 2)), np.ones((40, 40)), torch.ones(3), [[1.0], [2.0, 3.0]], [1.0, "3"]]


def refusal(read, given, named):
    with pytest.raises(ValueError, match=named) as error:
        read(given)
    return str(error.value)


@pytest.mark.parametrize("read", ONE.values(), ids=ONE)
def test_one_number_of_any_kind_is_read(read):
    assert [read(given) for given in NUMBERS] == [3.0] * len(NUMBERS)


@pytest.mark.parametrize("read", ONE.values(), ids=ONE)
def test_what_is_not_one_number_is_refused_in_one_line(read):
    for given in [*TEXTS, *NEITHER, *ROWS, [1.0, 2.0], np.ones(1)]:
        assert "\n" not in refusal(read, given, r"'bob'|^budget_j")


@pytest.mark.parametrize("read", ROW.values(), ids=ROW)
def test_numbers_of_any_kind_in_a_row_are_read(read):
    assert [list(map(float, read(given))) for given in IN_A_ROW] == [[3.0, 3.0]] * len(IN_A_ROW)


@pytest.mark.parametrize("read", ROW.values(), ids=ROW)
def test_what_is_not_as_many_numbers_is_refused_in_one_line(read):
    for given in [*TEXTS, *NEITHER[1:], *ROWS, 3.0, ["3", "3"], [None, 3.0], [3j, 3.0]]:
        assert "\n" not in refusal(read, given, r"^'bob'")
