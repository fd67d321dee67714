"""What Ray's workers import ahead."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW = """
import experiments.study.preload, gc, sys
print("experiments.study.trial" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


@pytest.mark.slow
def test_a_worker_has_a_trials_imports_and_never_looks_through_them_for_garbage():
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, timeout=120)
    assert shown.stdout.split() == ["True"] * 3
