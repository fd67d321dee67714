"""run.json: what was run comes back, and what is no record is refused in one line."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, load_run_info, read_run_info, write_run_info

CLIENTS = [ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)]
FEDERATION = FederationRecord(["zero", "one"], 5, ModelRecord("cnn", 10, 100), CLIENTS)
INFO = RunInfo("digits", 0.8, 12, {"dataset": "digits"}, ["fedavg", "bippo"], [7, 28], federation_record=FEDERATION)
RECORD = dataclasses.asdict(INFO)


def test_a_record_comes_back(tmp_path: Path) -> None:
    assert read_run_info(tmp_path) is None
    for info in (INFO, dataclasses.replace(INFO, federation_record=None, init_from="checkpoint")):
        write_run_info(tmp_path, info)
        assert read_run_info(tmp_path) == info


def _with_federation(client: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    first, second = RECORD["federation_record"]["clients"]
    clients = [first, {**second, **(client or {})}]
    return {"federation_record": {**RECORD["federation_record"], "clients": clients, **changes}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rounds": "four"}, "rounds is 'four', expected"),
        ({"rounds": 10**400}, "rounds is 1000"),
        ({"rounds": True}, "rounds is True, expected"),
        ({"target_accuracy": math.nan}, "target_accuracy is nan, expected"),
        ({"seeds": [7, -1]}, "seeds.1 is -1, expected"),
        ({"seeds": [7, 7]}, "seeds "),
        ({"methods": []}, r"methods is \[\]"),
        ({"methods": "bippo"}, "methods is 'bippo', expected"),
        ({"warmup_energy_j": {"bippo-seed7": math.inf}}, "warmup_energy_j.bippo-seed7 is inf, expected"),
        (_with_federation({"client": 7}), "clients.1 is client 7"),
        (_with_federation({"labels": {"2": 1}}), "client 1 holds label '2', but there are 2 classes"),
        (_with_federation({"cost_j": -1.0}), "federation_record.clients.1.cost_j is -1.0, expected"),
        (_with_federation({"cpu_freq_hz": 0.0}), "cpu_freq_hz is 0.0, expected"),
        (_with_federation(noisy_clients=[2]), r"noisy_clients are \[2\]"),
    ],
)
def test_every_number_of_a_record_has_its_range(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**RECORD, **changes}))
    with pytest.raises(ValueError, match=f"run.json is no record of a study: .*{named}") as error:
        load_run_info(path)
    assert len(str(error.value).splitlines()) == 1 and read_run_info(path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"null", b"\xff", b"[" * 100_000, b'{"scenario": "digits"}'])
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.json is no record of a study: ") as error:
        load_run_info(tmp_path)
    assert len(str(error.value).splitlines()) == 1 and len(str(error.value)) < 1000


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(ValueError, match="is no file"):
        load_run_info(tmp_path)


def test_a_command_of_odd_bytes_does_not_spoil_the_record(tmp_path: Path) -> None:
    write_run_info(tmp_path, dataclasses.replace(INFO, command="--results-dir st\udcfcdie grün"))
    assert load_run_info(tmp_path).command == "--results-dir st?die grün"


def test_a_record_is_read_by_any_name(tmp_path: Path) -> None:
    write_run_info(tmp_path, INFO)
    kept = (tmp_path / "run.json").rename(tmp_path / "kept.json")
    write_run_info(tmp_path, dataclasses.replace(INFO, rounds=9))
    assert (read_run_info(kept).rounds, read_run_info(tmp_path).rounds) == (12, 9)  # type: ignore[union-attr]
    assert read_run_info(tmp_path / "none.json") is None
