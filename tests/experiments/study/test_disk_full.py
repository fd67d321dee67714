"""A full disk: one line that says which folder, what is kept and how to resume; what was written stays readable."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ray import cloudpickle, tune
from ray.exceptions import RayTaskError
from row_factory import make_rows
from study_runs import TunerHere

from experiments import tune_bippo
from experiments.results.rows import ROWS_FILE, RowWriter, read_rows
from experiments.study.failure import TrialFailed, is_disk_full

STUDY = ["--methods", "bippo", "fedavg", "--seeds", "7", "--rounds", "5", "--parallel-trials", "1"]


def full_disk(path: Path) -> None:
    """Whoever writes to that path gets ENOSPC from the system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")


def test_rows_on_a_full_disk_leave_the_old_file_as_it_was(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path, interval_s=0.0)
    rows = make_rows([0.5] * 3)
    writer.append(rows[0])
    full_disk(tmp_path / f"{ROWS_FILE}.tmp")
    with pytest.raises(OSError, match="No space left") as error:
        writer.append(rows[1])
    assert is_disk_full(error.value)
    assert [path.name for path in tmp_path.iterdir()] == [ROWS_FILE]
    assert pq.read_table(tmp_path / ROWS_FILE)["round"].to_pylist() == [1]
    writer.append(rows[2])  # there is room again: nothing was lost
    assert pq.read_table(tmp_path / ROWS_FILE)["round"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("raised", "is_full"),
    [
        (OSError(errno.ENOSPC, "no room"), True),
        (OSError(errno.EDQUOT, "quota"), True),
        (OSError(errno.EACCES, "No space left on device"), False),
        (pa.ArrowInvalid("[Errno 28]"), False),
    ],
)
def test_a_full_disk_is_known_by_its_number_and_survives_rays_way_to_the_driver(raised: Exception, is_full: bool):
    actor = RayTaskError("train", "Traceback of another process", raised, "p", 1, "::1")
    try:
        raise RuntimeError("the trial failed") from actor.as_instanceof_cause()
    except RuntimeError as error:
        failed = TrialFailed.of(error)
    assert TrialFailed.of(failed) is failed and failed.reason.startswith(f"{type(raised).__name__}: ")
    carried = RayTaskError("train", "Traceback", failed, "p", 1, "::1").as_instanceof_cause()
    arrived = pickle.loads(cloudpickle.dumps(carried))
    assert isinstance(arrived, TrialFailed)
    assert (arrived.reason, arrived.is_disk_full) == (failed.reason, is_full) and is_disk_full(raised) == is_full


def test_a_study_that_cannot_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full_disk(tmp_path / "run.json.tmp")
    assert tune_bippo.main([*STUDY, "--results-dir", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: no space left on the disk of ") and line.endswith("then run the command again")


@pytest.mark.slow
def test_a_study_ends_with_one_line_and_goes_on_when_there_is_room(
    ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(tmp_path / "bippo-seed7" / f"{ROWS_FILE}.tmp")
    assert tune_bippo.main([*STUDY, "--results-dir", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "MiB free)" in line or "GiB free)" in line
    assert f"are kept in {tmp_path}. Make room" in line
    assert line.endswith(f"resume with: bippo tune --resume {tmp_path}")
    assert not (tmp_path / "fedavg-seed7" / ROWS_FILE).exists()  # the whole study stops, not one trial after the other
    monkeypatch.setattr(tune, "Tuner", TunerHere)
    monkeypatch.setattr(tune_bippo, "_print_report", lambda study: None)
    assert tune_bippo.main(["--resume", str(tmp_path)]) == 0
    assert read_rows(tmp_path).groupby("method")["round"].apply(list).to_dict() == {
        "bippo": [1, 2, 3, 4, 5],
        "fedavg": [1, 2, 3, 4, 5],
    }
