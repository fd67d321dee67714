"""What an environment returned as arrays, and which entries are refused."""

from __future__ import annotations

import numpy as np
import pytest

from bippo_rllib.runners.running_episode import stack_entries


def test_entries_are_stacked_in_the_order_asked_for():
    entries = {"a": [1.0, 2.0], "b": np.array([3.0, 4.0]), "c": None}
    stacked = stack_entries(entries, ["b", "a"], "observation", 2)
    assert stacked.dtype == np.float32 and stacked.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert stack_entries({}, [], "observation", 2).shape == (0, 2)


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({}, "missing"),
        ({"b": None}, "None"),
        ({"b": "low"}, "low"),
        ({"b": [1.0]}, r"\[1.0\]"),
        ({"b": [[1.0], [2.0, 3.0]]}, r"\[\[1.0\], \[2.0, 3.0\]\]"),
        ({"b": [0.0, 1e300]}, r"\[0.0, 1e\+300\]"),  # not a finite float32
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_an_entry_that_is_no_observation_is_named(entry, found):
    with pytest.raises(ValueError, match=rf"^the observation of 'b' is {found}; .* finite numbers of shape \(2,\) for"):
        stack_entries({"a": [1.0, 2.0], **entry}, ["a", "b"], "observation", 2)
