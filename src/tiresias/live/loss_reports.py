"""The part that makes facts of the losses which trainings report, so that policies can learn from them.

Rules:
- Few of the reports become facts: of one job, each is at least a tenth further than the one before and
  `loss_every_s` seconds later. So a training of a million steps leaves about a hundred facts.
- The reports of running jobs are looked at by turns, at most AT_ONCE of them at a time, because each look
  reads a file that a program of a user writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.progress_reader import LossPoint, ProgressReader
from tiresias.live.settings import Settings

AT_ONCE = 50
GROWTH = 1.1


class LossReports:
    """See the module."""

    def __init__(self, journal: Journal, progress: ProgressReader, paths: HomePaths, settings: Settings):
        self._journal, self._progress, self._paths = journal, progress, paths
        self._every_s = settings.loss_every_s
        self._to_look_at: dict[
            RunId, None
        ] = {}  # running runs, those that were not looked at for longest first
        self._last: dict[JobId, float] = {}  # the step of the last fact, of active jobs
        self.next_due_at = INFINITY

    def load(self) -> None:
        """Look at the runs that were running when the manager before this one ended."""
        for run_id, run in self._journal.state.runs.items():
            if self._journal.state.jobs[run.job_id].phase is Phase.RUNNING:
                self._add(run_id)

    def on(self, taken: Taken) -> list[Input]:
        for fact in taken.facts:
            if isinstance(fact, f.RunStarted):
                self._add(fact.run_id)
            elif isinstance(fact, f.RunExited):
                self._to_look_at.pop(fact.run_id, None)
        for ended in taken.ended:
            self._last.pop(ended.job.id, None)
        return []

    def due(self, at: float) -> Iterator[Input]:
        if at < self.next_due_at:
            return
        runs = list(self._to_look_at)[:AT_ONCE]
        for run_id in runs:
            del self._to_look_at[run_id]
        # The time in which each run is looked at once, shared out among the looks that this takes.
        looks = -(-(len(runs) + len(self._to_look_at)) // AT_ONCE)
        facts = [fact for run_id in runs if (fact := self._look(run_id, at)) is not None]
        self._to_look_at |= {run_id: None for run_id in runs if run_id in self._journal.state.runs}
        self.next_due_at = at + self._every_s / max(looks, 1) if self._to_look_at else INFINITY
        if facts:
            yield Input(facts)

    def _add(self, run_id: RunId) -> None:
        self._to_look_at[run_id] = None
        self.next_due_at = min(self.next_due_at, self._journal.now() + self._every_s)

    def _look(self, run_id: RunId, at: float) -> f.LossReported | None:
        state = self._journal.state
        run = state.runs.get(run_id)
        if run is None or (job := state.jobs[run.job_id]).phase is not Phase.RUNNING:
            return None
        self._progress.latest(run_id, self._paths.reports(job.id, job.runs), self._journal.wall())
        point = self._progress.loss(run_id)
        if point is None or not self._is_further(job.id, point):
            return None
        self._last[job.id] = point.step
        return f.LossReported(at, run_id, point.step, point.loss, point.epoch, point.total_steps)

    def _is_further(self, job_id: JobId, point: LossPoint) -> bool:
        """Whether the training is a tenth further than at the last fact, or began anew."""
        last = self._last.get(job_id)
        return last is None or point.step < last or point.step > last * GROWTH
