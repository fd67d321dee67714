"""Rules of published methods: a number that a rule needs of every client is never missing in silence."""

from __future__ import annotations

import numpy as np
import pytest

from bippo_rllib.baselines.fedcor import WARM_UP, FedCor
from bippo_rllib.baselines.hics import HiCS
from bippo_rllib.baselines.norm_filter import NormFilter
from bippo_rllib.baselines.oort import Oort

INFO = {
    "num_samples": 10,
    "loss": 1.0,
    "granted_j": 1.0,
    "update_norm": None,
    "output_bias_update": None,
}


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (FedCor, "loss"),
        (FedCor, "num_samples"),
        (lambda: HiCS(50), "num_samples"),
        (NormFilter, "num_samples"),
        (Oort, "granted_j"),
        (Oort, "loss"),
        (Oort, "num_samples"),
    ],
)
@pytest.mark.parametrize("number", [None, np.nan, np.inf])
def test_a_number_that_every_client_must_report_is_asked_for_by_name(make, key, number):
    rule, everyone = make(), np.ones(2, dtype=bool)
    for _ in range(WARM_UP):
        rule.scores(["a", "b"], [INFO, INFO], np.ones(2), 1.0, everyone)
    with pytest.raises(ValueError, match=rf"^the info of 'b' has .*'{key}'"):
        rule.scores(["a", "b"], [INFO, {**INFO, key: number}], np.ones(2), 1.0, everyone)
