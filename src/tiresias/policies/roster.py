"""The roster of an allocator: who waits, by tenant and size, and who is given GPUs.

It follows from the State and the wish that stands, and is kept up to date by what has changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from tiresias.core.entries import Key
from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.state import JobState
from tiresias.core.view import AllotView


class TenantJobs:
    """The jobs of one tenant: who waits, by size and in order, and how many GPUs the others are given."""

    __slots__ = ("_heads", "by_size", "used")

    def __init__(self) -> None:
        self.by_size: dict[int, list[tuple[Key, JobId]]] = {}
        self.used = 0
        self._heads: list[tuple[Key, JobId, int]] | None = None

    def add(self, key: Key, id: JobId, gpus: int) -> None:
        insort(self.by_size.setdefault(gpus, []), (key, id))
        self._heads = None

    def remove(self, key: Key, id: JobId, gpus: int) -> None:
        waiting = self.by_size[gpus]
        del waiting[bisect_left(waiting, (key, id))]
        if not waiting:
            del self.by_size[gpus]
        self._heads = None

    def heads(self) -> list[tuple[Key, JobId, int]]:
        """The first job of each size, in order."""
        if self._heads is None:
            self._heads = sorted([(*waiting[0], gpus) for gpus, waiting in self.by_size.items()])
        return self._heads


class Roster:
    """Who waits and who is given GPUs."""

    def __init__(self) -> None:
        self.tenants: dict[str, TenantJobs] = {}
        self.waiting: dict[JobId, tuple[str, int, Key]] = {}
        self.given: dict[JobId, tuple[str, int]] = {}
        self.used = 0  # GPUs that are given to jobs whose runs may be stopped
        self.taken: set[JobId] = set()

    def update(self, job: JobState, view: AllotView, *, is_given: bool) -> None:
        """The job has changed: forget it, and enter it as it is now."""
        id = job.id
        self.forget(id)
        is_taken = view.is_taken(job)
        key = view.key(job)
        if is_taken:
            self.taken.add(id)
        if is_taken or (key is not None and is_given):
            self.give(id, job.tenant, job.gpus)
        elif key is not None:
            self._of(job.tenant).add(key, id, job.gpus)
            self.waiting[id] = (job.tenant, job.gpus, key)

    def forget(self, id: JobId) -> None:
        if id in self.waiting:
            tenant, gpus, key = self.waiting.pop(id)
            self.tenants[tenant].remove(key, id, gpus)
        elif id in self.given:
            tenant, gpus = self.given.pop(id)
            self.tenants[tenant].used -= gpus
            if id in self.taken:
                self.taken.discard(id)
            else:
                self.used -= gpus
        else:
            return
        if not self.tenants[tenant].by_size and not self.tenants[tenant].used:
            del self.tenants[tenant]

    def give(self, id: JobId, tenant: str, gpus: int) -> None:
        self.given[id] = (tenant, gpus)
        self._of(tenant).used += gpus
        if id not in self.taken:
            self.used += gpus

    def start(self, id: JobId, size: int | None = None) -> int:
        """A waiting job is given its GPUs, or another number of them if it is elastic: how many."""
        tenant, gpus, key = self.waiting.pop(id)
        self.tenants[tenant].remove(key, id, gpus)
        self.give(id, tenant, gpus if size is None else size)
        return gpus

    def fill(self, room: int) -> Iterator[tuple[JobId, int]]:
        """Give what is free to waiting jobs, in order; which, and how many GPUs."""
        room -= self.used
        while room > 0:
            fits = [head for jobs in self.tenants.values() for head in jobs.heads() if head[2] <= room]
            if not fits:
                return
            _, id, gpus = min(fits)
            self.start(id)
            room -= gpus
            yield id, gpus

    def resize(self, id: JobId, gpus: int) -> None:
        """A job is given another number of GPUs."""
        tenant, before = self.given[id]
        self.tenants[tenant].used += gpus - before
        self.used += gpus - before
        self.given[id] = (tenant, gpus)

    def _of(self, tenant: str) -> TenantJobs:
        jobs = self.tenants.get(tenant)
        if jobs is None:
            jobs = self.tenants[tenant] = TenantJobs()
        return jobs


def refresh(
    roster: Roster | None, view: AllotView, given: dict[JobId, Allotment], withdrawn: list[JobId]
) -> Roster:
    """The roster as of now. It adds to `given` the runs that the wish does not know of, and to `withdrawn`
    what can no longer be given."""
    wish = view.wish
    if view.changed is None or roster is None:
        roster = Roster()
        for job in [*view.jobs(), *view.taken()]:
            runs = job.gpu_run is not None and job.phase is not Phase.STOPPING
            roster.update(job, view, is_given=job.id in wish or runs)
            if runs and job.id not in wish and not view.is_taken(job):
                given[job.id] = Allotment(job.id, job.gpus)
        withdrawn += [id for id in wish if id not in roster.given]
    else:
        for job in view.changed:
            roster.update(job, view, is_given=job.id in wish)
            if job.id in wish and job.id not in roster.given:
                withdrawn.append(job.id)
    if roster.used > view.room:
        _shrink(roster, view, given, withdrawn)
    return roster


def _shrink(roster: Roster, view: AllotView, given: dict[JobId, Allotment], withdrawn: list[JobId]) -> None:
    """Less is in service than is given: who has not started goes first, then the latest runs."""
    jobs = [job for id in roster.given if id not in roster.taken and (job := view.job(id)) is not None]
    jobs.sort(key=lambda job: (-INFINITY if job.gpu_run is None else -job.gpu_run.granted_at, -job.id))
    for job in jobs:
        if roster.used <= view.room:
            return
        if given.pop(job.id, None) is None:
            withdrawn.append(job.id)
        roster.update(job, view, is_given=False)
