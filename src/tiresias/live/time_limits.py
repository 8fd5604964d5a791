"""When runs reach the time limits of their jobs, without looking at all runs."""

from __future__ import annotations

from heapq import heappop, heappush

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, Phase, RunId
from tiresias.core.state import Run
from tiresias.live.journal import Journal, Taken


class TimeLimits:
    """A heap of what is due. An entry that no longer holds is dropped when it comes first.

    When a run reaches its limit is fixed by its grant. What may change it later puts the job on
    `ManagedJobs.retimed`, or makes the run one that no limit ends, for as long as it lives.
    """

    def __init__(self, journal: Journal):
        self._journal = journal
        self._heap: list[tuple[float, RunId]] = []

    def on(self, taken: Taken) -> None:
        """A run has its limit from its grant on; one that a manager before granted has it when it starts."""
        managed = self._journal.managed
        for fact in taken.decisions:
            if isinstance(fact, f.RunGranted) and fact.job_id in managed.limited:
                managed.retimed[fact.job_id] = None
        for fact in taken.facts:
            if isinstance(fact, f.RunStarted):
                run = self._journal.state.runs.get(fact.run_id)
                if run is not None and run.job_id in managed.limited:
                    managed.retimed[run.job_id] = None

    @property
    def next_at(self) -> float:
        self._take_in()
        heap, runs = self._heap, self._journal.state.runs
        while heap:
            run = runs.get(heap[0][1])
            if run is not None and self.expires_at(run) == heap[0][0]:
                return heap[0][0]
            heappop(heap)
        return INFINITY

    def expired(self, at: float) -> list[Run]:
        """The runs whose limits have passed; each stays due until it stops."""
        found: dict[RunId, float] = {}
        while self.next_at <= at:
            expires_at, run_id = heappop(self._heap)
            found[run_id] = expires_at
        for run_id, expires_at in found.items():
            heappush(self._heap, (expires_at, run_id))
        return [self._journal.state.runs[run_id] for run_id in sorted(found)]

    def expires_at(self, run: Run) -> float:
        journal = self._journal
        limit_s = journal.managed[run.job_id].spec.time_limit_s
        if limit_s is None:
            return INFINITY
        job = journal.state.jobs[run.job_id]
        if job.phase is Phase.STOPPING or journal.clock.last_before_boot(run.id) is not None:
            return INFINITY  # it stops already, or ended with the last boot, which is about to be reported
        if run.started_at == INFINITY and run.id in journal.inherited:
            return INFINITY  # it may never have begun, and then it has not used any time
        return run.granted_at + limit_s - job.executed_s

    def _take_in(self) -> None:
        """The runs of jobs that are new, were granted, or have another limit."""
        jobs, retimed = self._journal.state.jobs, self._journal.managed.retimed
        while retimed:
            job = jobs.get(retimed.popitem()[0])
            if job is not None and job.run is not None:
                heappush(self._heap, (self.expires_at(job.run), job.run.id))
