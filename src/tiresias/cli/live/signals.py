"""An end to waiting: after a while a command gives up, and the job goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tiresias.cli import errors
from tiresias.cli.errors import Stop


@dataclass(slots=True, frozen=True)
class Deadline:
    seconds: float | None  # None: never
    what: str


@contextmanager
def out_of_time(deadline: Deadline) -> Iterator[None]:
    """Within it, waiting of any kind ends with exit code 124 when the time is up."""
    if deadline.seconds is None:
        yield
        return

    def give_up(*_: object) -> None:
        raise Stop(f"{deadline.what} has not ended after {deadline.seconds:g} s; it goes on", errors.TIMEOUT)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline.seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
