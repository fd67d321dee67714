"""SIGTERM, which batch systems, `ray job stop` and `kill` send, ends a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from typing import Any


def terminate_as_interrupt() -> None:
    """From now on SIGTERM raises KeyboardInterrupt. Ray sets a handler of its own when it starts, so once more then."""
    _handle(signal.default_int_handler, signal.SIGTERM)


def ignore_interrupts() -> None:
    """While what was started is being ended: a second signal must not leave it half ended."""
    _handle(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM)


def heed_interrupts() -> None:
    """Both signals raise KeyboardInterrupt again."""
    _handle(signal.default_int_handler, signal.SIGINT, signal.SIGTERM)


def _handle(handler: Any, *numbers: signal.Signals) -> None:
    """Python lets only the main thread say what signals do."""
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            signal.signal(number, handler)
