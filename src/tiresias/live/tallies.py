"""Counts for the metrics: waits, preemptions, GPU time and lost work, since the manager was started.

A counter of Prometheus begins again at 0 with each process, so nothing of this is stored.
"""

from __future__ import annotations

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId
from tiresias.live.journal import Exit, Input, Journal, Taken

WAITS_S = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 7 * 86_400.0)
MOST_USERS = 100  # that have figures of their own; those of further users are added up
OTHERS = "(others)"


class Tallies:
    """The part that counts. `waits` has one number per bound of WAITS_S, and one for longer waits."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal):
        self._journal = journal
        self.waits = [0] * (len(WAITS_S) + 1)
        self.waited_s = 0.0
        self.preemptions = 0
        self._gpu_s: dict[str, float] = {}
        self._lost_gpu_s: dict[str, float] = {}

    def on(self, taken: Taken) -> list[Input]:
        state = self._journal.state
        for fact in taken.decisions:
            if isinstance(fact, f.RunGranted):
                job = state.jobs.get(fact.job_id)
                if job is not None and job.runs == 1:
                    self._wait(fact.at - job.submitted_at)
            elif isinstance(fact, f.RunRevoked):
                self.preemptions += 1
        for fact in taken.facts:
            if isinstance(fact, f.WorkLost):
                self._add(self._lost_gpu_s, self._user(fact.job_id, taken), fact.lost_s * fact.gpus)
        if taken.exit is not None:
            self._exited(taken.exit)
        return []

    def _user(self, id: JobId, taken: Taken) -> str:
        job = self._journal.state.jobs.get(id)
        ended = (each.job for each in taken.ended if each.job.id == id)
        return job.user if job is not None else next((each.user for each in ended), OTHERS)

    def _wait(self, wait_s: float) -> None:
        place = next((n for n, most_s in enumerate(WAITS_S) if wait_s <= most_s), len(WAITS_S))
        self.waits[place] += 1
        self.waited_s += max(0.0, wait_s)

    def _exited(self, exit: Exit) -> None:
        run, job = exit.run, exit.job
        ended_at = min(run.ended_at, self._journal.state.at)
        self._add(self._gpu_s, job.user, max(0.0, ended_at - run.granted_at) * job.gpus)

    def _add(self, sums: dict[str, float], user: str, amount: float) -> None:
        who = user if user in sums or len(sums) < MOST_USERS else OTHERS
        sums[who] = sums.get(who, 0.0) + amount

    def due(self, at: float) -> list[Input]:
        return []

    def gpu_s(self) -> dict[str, float]:
        """GPU-seconds by user, those of present runs included."""
        found, now = dict(self._gpu_s), self._journal.now()
        for run in self._journal.state.runs.values():
            job = self._journal.state.jobs[run.job_id]
            self._add(found, job.user, (now - run.granted_at) * job.gpus)
        return found

    def lost_gpu_s(self) -> dict[str, float]:
        """GPU-seconds by user of work that was not saved when its run was stopped."""
        return dict(self._lost_gpu_s)
