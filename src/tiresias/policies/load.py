"""How long jobs would wait if no run were preempted, and how reluctant that makes the policy to preempt.

A preemption saves at most the time for which the waiting job would have waited anyway, and it costs what the
runs lose by saving and loading. On a busy cluster the wait is hours or days, and the cost does not matter; on
one where a GPU becomes free every few minutes, a preemption costs more than it can save. The wait without
preemptions is estimated as the number of waiting jobs divided by the rate at which jobs end. Both follow
from facts; the rate forgets: RECENT ends later one counts 1/e.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.state import JobState
from tiresias.policies.preemption_costs import PreemptionCosts

STOPPING = Phase.STOPPING
RECENT = 30
WEIGHT = 8.0  # of the cost of a preemption divided by the wait that it can save
MOST = 5.0  # the largest reluctance: an index must be e^5 = 148 times as large
CHANGE = 0.3  # by which the reluctance must change for jobs to be ranked anew
MANY = 512  # waiting jobs from which on the cluster counts as busy; so many are ranked anew at most


def waits(job: JobState) -> bool:
    """Whether a job would hold GPUs now if there were enough; one that saves will have to wait as well."""
    if job.ended_at != INFINITY or job.on_hold or job.deferred or job.cancelled:
        return False
    return job.gpu_run is None or job.phase is STOPPING


class Load:
    """The jobs that wait, the rate of ends, and the reluctance that ranks contain at present."""

    def __init__(self, saved: Sequence[Any] = (0.0, 0.0, None, 0.0)) -> None:
        self.waiting: set[JobId] = set()  # follows from the State, so it is not saved
        self.ends: float
        self.over_s: float  # seconds in which these ends came
        self.last_end_at: float | None
        self.reluctance: float
        self.ends, self.over_s, self.last_end_at, self.reluctance = saved

    def save(self) -> list[Any]:
        return [self.ends, self.over_s, self.last_end_at, self.reluctance]

    def begin(self, jobs: Iterable[JobState]) -> None:
        """A Controller begins to decide about these jobs."""
        self.waiting = {job.id for job in jobs if waits(job)}

    def see(self, job: JobState) -> None:
        """A fact has changed the job."""
        if waits(job):
            self.waiting.add(job.id)
        else:
            self.waiting.discard(job.id)

    def end(self, at: float) -> None:
        """A job has ended."""
        if self.last_end_at is not None:
            fades = 1 - 1 / RECENT
            self.ends = self.ends * fades + 1
            self.over_s = self.over_s * fades + at - self.last_end_at
        self.last_end_at = at

    def wait_s(self, at: float) -> float:
        """The seconds for which a job would wait without preemptions; infinite while no rate is known."""
        if not self.ends or self.last_end_at is None:
            return INFINITY
        return len(self.waiting) * (self.over_s + at - self.last_end_at) / self.ends

    def changed(self, costs: PreemptionCosts, at: float) -> list[JobId]:
        """Follow the load; the jobs that must be ranked anew for that."""
        if not self.waiting:
            return []
        wanted = 0.0
        if len(self.waiting) < MANY:
            wait_s = self.wait_s(at)
            wanted = min(WEIGHT * sum(costs.cost()) / wait_s, MOST) if wait_s else MOST
        if abs(wanted - self.reluctance) <= CHANGE and (wanted or not self.reluctance):
            return []
        self.reluctance = wanted
        return sorted(self.waiting)
