"""The part that keeps some estimates of starts until their jobs start, and what is learned from that.

Rules: the estimates are made elsewhere, seldom and in another thread. What was learned is stored in the
journal; forecasts of jobs that wait are forgotten when the manager ends.
"""

from __future__ import annotations

from collections import deque

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId
from tiresias.live.eta import Estimate, Queue
from tiresias.live.foresight import Forecast, Record
from tiresias.live.journal import Input, Journal, Taken

SETTING = "foresight"
MOST_WAITING = 500  # forecasts
MOST_RECENT = 50  # jobs that were submitted last
MOST_AHEAD = 200  # jobs: an estimate behind more takes long


class Forecasts:
    """`record` says what was learned."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal):
        self._journal = journal
        self._recent: deque[JobId] = deque(maxlen=MOST_RECENT)
        self._waiting: dict[JobId, Forecast] = {}
        stored = journal.setting(SETTING)
        self.record = Record() if stored is None else Record.from_json(stored)

    def on(self, taken: Taken) -> list[Input]:
        for fact in taken.facts:
            if isinstance(fact, f.JobSubmitted):
                self._recent.append(fact.job.id)
        for fact in taken.decisions:
            if isinstance(fact, f.RunGranted) and fact.job_id in self._waiting:
                self.record.started(self._waiting.pop(fact.job_id), fact.at)
                self._journal.keep_setting(SETTING, self.record.to_json())
        for ended in taken.ended:
            self._waiting.pop(ended.job.id, None)
        return []

    def due(self, at: float) -> list[Input]:
        return []

    def next_job(self) -> JobId | None:
        """A job that was submitted lately and has not run, for which an estimate would teach something."""
        while self._recent:
            id = self._recent.pop()
            job = self._journal.state.jobs.get(id)
            if job is not None and not job.runs and id not in self._waiting:
                return id
        return None

    def is_worthwhile(self, queue: Queue) -> bool:
        """Whether an estimate is soon made."""
        return len(queue.ahead) <= MOST_AHEAD and len(self._waiting) < MOST_WAITING

    def keep(self, id: JobId, at: float, found: Estimate) -> None:
        """Remember an estimate that was made at this instant, unless the job has started meanwhile."""
        job = self._journal.state.jobs.get(id)
        forecast = self.record.forecast(at, found)
        if forecast is not None and job is not None and not job.runs:
            self._waiting[id] = forecast
