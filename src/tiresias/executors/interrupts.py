"""Handling of SIGINT, SIGTERM and SIGHUP in a process whose children would outlive it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def raise_keyboard_interrupt(number: int, frame: object) -> None:
    """A handler for `exiting_on_signals` that treats SIGTERM and SIGHUP like Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def exiting_on_signals(handler: Callable[[int, object], None] = _leave) -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit inside the block, so that `finally` ends what was started."""
    before = {number: signal.signal(number, handler) for number in ENDING if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def deferring_signals(*, is_the_end: bool = False) -> Iterator[list[int]]:
    """Defer signals until the end of the block, so that the block is completed. Yields those received so far.

    With `is_the_end` they are dropped, because the process ends after the block anyway.
    """
    if threading.current_thread() is not threading.main_thread():  # only that thread handles signals
        yield []
        return
    received: list[int] = []
    deferred = [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in deferred}
    try:
        yield received
    finally:
        for number, former in before.items():
            signal.signal(number, former)
        if received and not is_the_end:
            signal.raise_signal(received[0])
