"""Signals: SIGTERM, which batch systems, ``ray job stop`` and ``kill`` send, ends a command as Ctrl-C does."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restores the handlers of SIGINT and SIGTERM after the body.

    Ray replaces them when it starts, and sets the system's, which end the process, when it shuts down.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            _handle(signal.SIG_DFL if handler is None else handler, number)


def terminate_as_interrupt() -> None:
    """Makes SIGTERM raise KeyboardInterrupt."""
    _handle(signal.default_int_handler, signal.SIGTERM)


def interrupt_main_thread() -> None:
    """Sends the main thread a SIGTERM from another thread; SIGINT may be ignored in a shell's background."""
    if hasattr(signal, "pthread_kill"):  # wakes it from whatever it waits for
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    else:
        _thread.interrupt_main(signal.SIGTERM)


def ignore_interrupts() -> None:
    """Ignores both signals, so that a second one does not cut the end of the study short."""
    _handle(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM)


def _handle(handler: Any, *numbers: signal.Signals) -> None:
    """Sets a handler in the main thread; Python allows it in no other."""
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            signal.signal(number, handler)
