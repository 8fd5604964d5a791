"""A time limit for code that may hang, in the main thread of a test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise AssertionError in the block after so many seconds.

    It is not a TimeoutError because that is an OSError, which the code under test may handle.
    """

    def give_up(*_: object) -> None:
        raise AssertionError(f"it hangs: not done within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
