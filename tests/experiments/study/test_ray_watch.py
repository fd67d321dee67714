"""A Ray that ends while a study runs: the study ends soon, in one line that says so."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import ray

from experiments.study import ray_watch
from experiments.study.interrupts import ignore_interrupts, signals_restored, terminate_as_interrupt
from experiments.study.ray_watch import RayWatch, ray_watched

NODES = [{"NodeID": "here", "Alive": True}, {"NodeID": "elsewhere", "Alive": False}]
DEAD = [{"NodeID": "here", "Alive": False}, {"NodeID": "elsewhere", "Alive": True}]


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A port that is listened at, in the place of the GCS, for a watch that looks often and has little patience."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        context = SimpleNamespace(gcs_address=address, get_node_id=lambda: "here")
        for name, stand_in in (("is_initialized", lambda: True), ("get_runtime_context", lambda: context)):
            monkeypatch.setattr(ray, name, stand_in)
        monkeypatch.setattr(ray, "nodes", lambda: NODES)
        for name, seconds in (("_INTERVAL_S", 0.02), ("_PATIENCE_S", 0.1), ("_GRACE_S", 0.1)):
            monkeypatch.setattr(ray_watch, name, seconds)
        yield server


@pytest.fixture
def as_a_command() -> Iterator[None]:
    """Signals do what they do in the command."""
    with signals_restored():
        terminate_as_interrupt()
        yield


def run_until_gone(last_words: Callable[[ConnectionError], object] = lambda error: pytest.fail(str(error))) -> None:
    with ray_watched(last_words):
        time.sleep(20)
        pytest.fail("was not interrupted")


def test_a_dead_gcs_ends_the_study_once_it_has_not_answered_for_long(gcs: socket.socket, as_a_command: None) -> None:
    threading.Timer(0.1, gcs.close).start()
    with pytest.raises(ConnectionError, match=r"Ray has ended \(its GCS at 127.0.0.1:\d+ has not answered for 0.1 s"):
        run_until_gone()


def test_a_dead_raylet_ends_the_study_and_that_of_another_node_does_not(
    gcs: socket.socket, as_a_command: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ray_watched(pytest.fail):
        time.sleep(0.1)
    threading.Timer(0.1, lambda: monkeypatch.setattr(ray, "nodes", lambda: DEAD)).start()
    with pytest.raises(ConnectionError, match=r"Ray has ended on this machine \(its raylet died\)"):
        run_until_gone()


def test_trials_that_failed_since_ray_ended_are_no_result(gcs: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: DEAD)
    monkeypatch.setattr(ray_watch, "_INTERVAL_S", 20)
    with pytest.raises(ConnectionError, match="raylet died"), ray_watched(pytest.fail):
        pass


def test_a_process_that_cannot_be_interrupted_has_its_last_words(
    gcs: socket.socket, as_a_command: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(os, "_exit", said.append)
    monkeypatch.setattr(ray, "nodes", lambda: DEAD)
    with pytest.raises(ConnectionError, match="raylet died"), ray_watched(lambda error: said.append(str(error))):
        ignore_interrupts()
        time.sleep(1)
    assert said == ["Ray has ended on this machine (its raylet died)", 1]


def test_an_interrupt_is_not_taken_for_the_end_of_ray(gcs: socket.socket, as_a_command: None) -> None:
    with pytest.raises(KeyboardInterrupt), ray_watched(pytest.fail):
        signal.raise_signal(signal.SIGTERM)


def test_a_moment_without_an_answer_is_no_end(gcs: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = RayWatch(pytest.fail)
    answers = iter([True, False, True, False, False])
    monkeypatch.setattr(ray_watch, "_answers", lambda address: next(answers))
    for expected in ("", "", "", "", "Ray has ended (its GCS at "):
        watch.look()
        assert watch.reason[:26] == expected
        time.sleep(0.07)


def test_before_ray_has_started_nothing_is_looked_for(gcs: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs.close()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    reasons: list[str] = []
    with ray_watched(reasons.append):
        time.sleep(0.3)
    assert reasons == []
