"""SIGTERM, which batch systems, ``ray job stop`` and ``kill`` send, ends a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from typing import Any


def terminate_as_interrupt() -> None:
    """Makes SIGTERM raise KeyboardInterrupt. Ray sets a handler of its own when it starts, so call it again then."""
    _handle(signal.default_int_handler, signal.SIGTERM)


def ignore_interrupts() -> None:
    """Ignores both signals while what was started is being ended, which a second one must not leave half ended."""
    _handle(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM)


def restore_interrupts() -> None:
    """Makes both signals raise KeyboardInterrupt again."""
    _handle(signal.default_int_handler, signal.SIGINT, signal.SIGTERM)


def _handle(handler: Any, *numbers: signal.Signals) -> None:
    """Python lets only the main thread say what signals do."""
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            signal.signal(number, handler)
