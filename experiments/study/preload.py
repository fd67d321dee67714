"""What Ray's workers import before a trial comes, without looking for garbage: imports make hardly any."""

from __future__ import annotations

import gc

gc.disable()
import experiments.study.trial  # noqa: E402, F401  (what is above is to hold for it)

gc.freeze()
gc.enable()
