"""Ends a study whose Ray has died; Tune would wait for ever for its raylet, and a minute for its GCS."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.study.interrupts import interrupt_main_thread

_INTERVAL_S = 5.0
#: Seconds without an answer of the GCS. After 60, Ray ends the process itself, without a message of ours.
_PATIENCE_S = 30.0
#: Seconds that the main thread has to react; it does not while it waits for the GCS.
_GRACE_S = 12.0


@contextmanager
def ray_watched(last_words: Callable[[ConnectionError], object]) -> Iterator[None]:
    """Watches Ray during the body of a ``with``, in which it may be started.

    Args:
        last_words: Called if the body cannot be interrupted; the process then ends with exit code 1.

    Raises:
        ConnectionError: If Ray has died.
    """
    watch = RayWatch(last_words)
    watch.start()
    try:
        yield
        watch.look()  # trials may have failed because of it
    except KeyboardInterrupt:
        if not watch.reason:
            raise
    finally:
        watch.end()
    if watch.reason:
        raise ConnectionError(watch.reason)


class RayWatch(threading.Thread):
    """Checks for Ray every few seconds, and interrupts the main thread when it has died.

    Args:
        last_words: As of ``ray_watched``.

    Attributes:
        reason: Why Ray counts as dead, in one line; empty while it runs.
    """

    def __init__(self, last_words: Callable[[ConnectionError], object]) -> None:
        super().__init__(name="ray watch", daemon=True)
        self.reason = ""
        self._last_words, self._ended = last_words, threading.Event()
        self._answered_at = time.monotonic()

    def run(self) -> None:
        """Checks until Ray has died or the watch ends."""
        while not self._ended.wait(_INTERVAL_S):
            self.look()
            if self.reason and not self._ended.is_set():
                interrupt_main_thread()
                if not self._ended.wait(_GRACE_S):
                    self._last_words(ConnectionError(self.reason))
                    os._exit(1)
                return

    def end(self) -> None:
        """Stops watching."""
        self._ended.set()

    def look(self) -> None:
        """Sets ``reason`` if Ray has died."""
        import ray

        if self.reason or not ray.is_initialized():
            self._answered_at = time.monotonic()
            return
        context = ray.get_runtime_context()
        if _answers(context.gcs_address):
            self._answered_at = time.monotonic()
            if not _is_alive(context.get_node_id()):
                self.reason = "Ray has ended on this machine (its raylet died)"
        elif time.monotonic() - self._answered_at > _PATIENCE_S:
            self.reason = f"Ray has ended (its GCS at {context.gcs_address} has not answered for {_PATIENCE_S:g} s)"


def _answers(address: str) -> bool:
    """Returns whether something listens at ``HOST:PORT``."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_INTERVAL_S):
            return True
    except OSError:
        return False


def _is_alive(node_id: str) -> bool:
    """Returns whether the GCS counts a node as alive, or does not know it."""
    import ray

    try:
        return all(node["Alive"] for node in ray.nodes() if node["NodeID"] == node_id)
    except Exception:  # Ray raises bare exceptions; the next check will tell
        return True
