"""Protection: runs of jobs that do not save are not preempted again, up to a share of the GPUs.

A preemption costs such a job all its work, and the cluster the GPUs that the work took. But nobody may win by
never saving. So the protected runs together hold no more than a share of the GPUs in service (at least one
GPU), and a job is protected only while it runs: it waits for its turn like any other one.

Of several runs, those that were granted first are protected first, until one does not fit into what is left
of the share. A run that is larger than the share alone is passed over. So who is protected follows from the
State, and a run does not lose its protection because others come or go.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from tiresias.core.model import INFINITY, JobId, Phase, Pool, RunId
from tiresias.core.state import JobState, State


class Protection:
    """Which runs are protected at present, kept up to date by `follow`.

    `unsaving` has the active jobs that are known not to save, and `runs` the protected runs of theirs.
    """

    def __init__(self, state: State, share: float):
        self._state = state
        self._share = share
        self.unsaving: dict[JobId, JobState] = {
            job.id: job for job in state.jobs.values() if job.resumable is False
        }
        self.runs = self._find()

    def concerns(self, job: JobState) -> bool:
        """Whether the job was known not to save."""
        return job.id in self.unsaving

    def follow(self, job: JobState) -> list[JobState]:
        """After a fact about a job that is, or was, known to save or not to: the other jobs whose
        protection has changed by it."""
        if job.resumable is False and job.ended_at == INFINITY:
            self.unsaving[job.id] = job
        elif self.unsaving.pop(job.id, None) is None:
            return []
        before, self.runs = self.runs, self._find()
        changed = before ^ self.runs
        if not changed:
            return []
        others = [other for other in self.unsaving.values() if other is not job]
        return [other for other in others if other.run is not None and other.run.id in changed]

    def _find(self) -> set[RunId]:
        return protected_runs(self.unsaving.values(), self._share, self._state.ledger.gpus)


def protected_runs(jobs: Iterable[JobState], share: float, gpus: int) -> set[RunId]:
    """The runs among those of `jobs`, which do not save, that are protected on a cluster of so many GPUs."""
    room = protected_gpus(share, gpus)
    if not room:
        return set()
    found = set()
    for run_id, demand in sorted([(job.run.id, job.run.gpus) for job in jobs if job.run and _counts(job)]):
        if demand > protected_gpus(share, gpus):
            continue
        if demand > room:
            break
        room -= demand
        found.add(run_id)
    return found


def protected_gpus(share: float, gpus: int) -> int:
    """How many GPUs the protected runs may hold together."""
    return max(1, floor(share * gpus + 1e-9)) if share > 0 and gpus else 0


def _counts(job: JobState) -> bool:
    """Whether it has a run on GPUs that a plan could stop."""
    run = job.run
    if run is None or run.pool is not Pool.GPUS or not job.gpus:
        return False
    return job.preemptible and job.phase is not Phase.STOPPING
