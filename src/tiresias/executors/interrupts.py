"""Signals that are to end us, while there are processes of ours that would go on without us."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def as_ctrl_c(number: int, frame: object) -> None:
    """For whom being told to end, or a terminal that is gone, is the same as Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def ended_in_order(hear: Callable[[int, object], None] = _leave) -> Iterator[None]:
    """A signal that ends us raises SystemExit, so that whoever has started something ends it first."""
    before = {number: signal.signal(number, hear) for number in ENDING if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def not_now(*, is_the_end: bool = False) -> Iterator[None]:
    """A signal that comes meanwhile is heard when this is over: what is begun here is brought to its end.

    Where that is the end anyway, it is not heard at all.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are handled by that one alone
        yield
        return
    came: list[int] = []
    heard = [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and not is_the_end:
            signal.raise_signal(came[0])
