"""Settings that only some methods read, or that make others unread: a study shows, builds and extends its trials."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from envs.config import config_from
from envs.settings.execution import Execution
from experiments.results.run_info import write_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.placement import Placement
from experiments.study.progress import Progress
from experiments.study.resume import study_to_resume
from experiments.study.study import Study
from experiments.study.trial_config import config_of, param_space

CASES = [
    *((name, "bippo", {"env.partition": "iid"}) for name in SCENARIOS if name not in ("churn", "scalability")),
    *((name, "bippo", {"env.joules_per_mac": 1e-12}) for name in SCENARIOS),
    *((name, "bippo-r", {"env.credit_clients": 3}) for name in SCENARIOS),
    ("digits", "bippo-s", {"env.shapley_pairs": 2}),
    ("digits", "bippo", {"env.partition": "natural", "env.dataset": "mine:data"}),
    ("digits", "bippo", {"env.partition": "parts:split"}),
]


@pytest.mark.parametrize(("scenario", "method", "settings"), CASES)
def test_a_trial_is_shown_and_built_and_its_study_extended(
    tmp_path: Path, scenario: str, method: str, settings: dict[str, object]
) -> None:
    study = Study(SCENARIOS[scenario], (method,), (7,), 200, tmp_path, settings=settings)
    space = param_space(study, Placement(1, Execution("serial")))
    (trial,) = space["trial"]["grid_search"]
    progress = Progress(3, 1, 12, io.StringIO())
    progress.on_trial_start(0, [], type("Trial", (), {"config": {**space, "trial": trial}})())
    (shown,) = progress.trials.values()
    assert shown.waiting_for.startswith("round 0, in which all ")
    assert config_from(**config_of({**space, "trial": trial}).env_config).rounds == 200
    if not study.scenario.churn:
        write_run_info(tmp_path, study.run_info)
        assert study_to_resume(tmp_path, rounds=201, force=True, trust_code=True).rounds == 201
