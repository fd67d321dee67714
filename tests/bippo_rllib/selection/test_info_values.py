"""Numbers in infos: all kinds of one number are read; anything else is refused by the agent's name."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from bippo_rllib.baselines.rule import numbers
from bippo_rllib.selection.connector_columns import info_values


def both_read(value):
    infos = {"ann": {"cost": 1.0}, "bob": {"cost": value}}
    yield lambda: info_values(infos, list(infos), "cost", "BippoConfig.info_keys(cost=...)")
    yield lambda: numbers(list(infos), list(infos.values()), "cost", "the rule needs")


@pytest.mark.parametrize(
    "value",
    [3, 3.0, np.float32(3), np.int8(3), np.array(3.0), torch.tensor(3.0), torch.tensor(3), Fraction(3), Decimal(3)],
)
def test_one_number_of_any_kind_is_read(value):
    for read in both_read(value):
        values = read()
        assert values.dtype == np.float64 and values.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("value", ["3", b"3", None, [3.0], [1.0, 2.0], [], np.ones(1), torch.ones(2), {}, 3j, object()])
def test_anything_else_is_refused_by_name_in_one_line(value):
    for read in both_read(value):
        with pytest.raises(ValueError, match=r"^the info of 'bob' has .*'cost'") as error:
            read()
        assert "\n" not in str(error.value)
