"""Timeouts: a command stops waiting after a time, and the job continues."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tiresias.cli import errors
from tiresias.cli.errors import Stop


@dataclass(slots=True, frozen=True)
class Deadline:
    seconds: float | None  # None: no limit
    what: str


@contextmanager
def out_of_time(deadline: Deadline) -> Iterator[None]:
    """End the command with exit code 124 when the time is over, wherever it waits."""
    if deadline.seconds is None:
        yield
        return

    def give_up(*_: object) -> None:
        raise Stop(
            f"{deadline.what} has not ended after {deadline.seconds:g} s and continues", errors.TIMEOUT
        )

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline.seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
