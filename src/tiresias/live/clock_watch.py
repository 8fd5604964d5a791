"""Reports in the log that the wall clock was set."""

from __future__ import annotations

import logging

from tiresias.core.model import INFINITY
from tiresias.live.clock import NOTICED_S
from tiresias.live.journal import Input, Journal, Taken

log = logging.getLogger("tiresias")


class ClockWatch:
    """The part that compares the wall clock with the manager's time whenever the manager wakes up."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal):
        self._journal = journal
        self._ahead_s = 0.0  # as last reported
        if problem := journal.clock.problem():
            self._ahead_s = journal.clock.ahead_s
            log.warning("%s", problem)

    def on(self, taken: Taken) -> list[Input]:
        return []

    def due(self, at: float) -> list[Input]:
        ahead_s = self._journal.clock.ahead_s
        if abs(ahead_s - self._ahead_s) >= NOTICED_S:
            self._ahead_s = ahead_s
            log.warning("%s", self._journal.clock.problem() or "the wall clock is right again")
        return []
