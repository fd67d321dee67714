"""SIGTERM, which batch systems, `ray job stop` and `kill` send, ends a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading


def terminate_as_interrupt() -> None:
    """From now on SIGTERM raises KeyboardInterrupt. Ray sets a handler of its own when it starts, so once more then."""
    _handle(signal.SIGTERM)


def ignore_interrupts() -> None:
    """While what was started is being ended: a second signal must not leave it half ended."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def heed_interrupts() -> None:
    """Both signals raise KeyboardInterrupt again."""
    _handle(signal.SIGINT)
    _handle(signal.SIGTERM)


def _handle(number: signal.Signals) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.default_int_handler)
