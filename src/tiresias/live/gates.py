"""Who may not even queue: jobs that wait for other jobs, an instant, a preflight, a limit of user or array.

The core knows only that a job is deferred and why. What lifts it is here: whenever something changes that
may matter, `facts` compares what should be with what is. A limit on running GPUs counts every job that may
queue, running or not, the ones that have run first: so a user is never above it, and splitting work into many
small jobs gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId
from tiresias.core.state import JobState
from tiresias.live.notes import Note
from tiresias.live.reports import Limits

UNDECIDED = "NotYetEvaluated"  # until the gates are asked, in the same commit
BACKOFF = "BackoffAfterFailure"  # has an end that the core knows
DEPENDENCY, BEGIN, PREFLIGHT, QUOTA, ARRAY = "Dependency", "BeginTime", "Preflight", "Quota", "ArrayLimit"
EVERYBODY = "*"


class Gates:
    """Books of who waits for whom; `jobs` and `notes` are the manager's own, kept up to date by it."""

    def __init__(self, jobs: Mapping[JobId, JobState], notes: Mapping[JobId, Note]):
        self.jobs, self.notes = jobs, notes
        self.limits: dict[str, Limits] = {}
        self.by_user: dict[str, dict[JobId, None]] = {}
        self._by_array: dict[str, dict[JobId, None]] = {}
        self._needs: dict[JobId, set[JobId]] = {}  # job: those that must succeed first and have not
        self._needed_by: dict[JobId, dict[JobId, None]] = {}
        self._begins: list[tuple[float, JobId]] = []
        self._dirty: dict[JobId, None] = {}  # jobs to look at again
        self._doomed: dict[JobId, JobId] = {}  # job: the one whose failure it cannot survive
        self._backoffs: dict[JobId, float] = {}  # job whose back-off a limit cut short: its end

    def add(self, id: JobId, unmet: Iterable[JobId] = ()) -> None:
        """A job that is active now; `unmet` are those that must succeed first (also its preflight)."""
        light = self.notes[id].light
        self.by_user.setdefault(light.user, {})[id] = None
        if light.array:
            self._by_array.setdefault(light.array, {})[id] = None
        if light.begin_at is not None:
            heappush(self._begins, (light.begin_at, id))
        if needs := set(unmet):
            self._needs[id] = needs
            for other in needs:
                self._needed_by.setdefault(other, {})[id] = None
        self._dirty[id] = None

    def remove(self, id: JobId, note: Note, *, has_succeeded: bool) -> None:
        """A job that has ended."""
        light = note.light
        self.by_user[light.user].pop(id, None)
        if not self.by_user[light.user]:
            del self.by_user[light.user]
        if light.array in self._by_array:
            self._by_array[light.array].pop(id, None)
            if not self._by_array[light.array]:
                del self._by_array[light.array]
        for other in self._needs.pop(id, ()):
            self._needed_by.get(other, {}).pop(id, None)
        self._dirty.pop(id, None)
        self._doomed.pop(id, None)
        self._backoffs.pop(id, None)
        for child in self._needed_by.pop(id, {}):
            if child not in self._needs:
                continue
            if has_succeeded:
                self._needs[child].discard(id)
                self._dirty[child] = None
            else:
                self._doomed[child] = id
        self.touch(light.user, light.array)

    def touch(self, user: str, array: str = "") -> None:
        """Something of this user or array changed: look at all of its jobs, if there is a limit."""
        if self.limit_of(user) is not None:
            self._dirty.update(self.by_user.get(user, {}))
        if array:
            self._dirty.update(self._by_array.get(array, {}))

    def touch_job(self, id: JobId) -> None:
        if id in self.jobs:
            light = self.notes[id].light
            self._dirty[id] = None
            self.touch(light.user, light.array)

    def may_bar(self, note: Note) -> bool:
        """Whether such a job must be looked at before it may queue."""
        light = note.light
        waits = bool(light.after) or light.begin_at is not None or note.preflight_job is not None
        return waits or light.array_limit is not None or self.limit_of(light.user) is not None

    def limit_of(self, user: str) -> int | None:
        return self.limits_of(user).max_running_gpus

    def limits_of(self, user: str) -> Limits:
        return self.limits.get(user) or self.limits.get(EVERYBODY) or Limits()

    @property
    def next_begin_at(self) -> float:
        begins = self._begins
        while begins and begins[0][1] not in self.jobs:
            heappop(begins)
        return begins[0][0] if begins else INFINITY

    def doom(self, id: JobId, other: JobId) -> None:
        """The job needs another one that did not succeed."""
        self._doomed[id] = other

    def doomed(self) -> dict[JobId, JobId]:
        """Waiting jobs that can never start, and whose failure that is; each is told once."""
        found = {id: why for id, why in self._doomed.items() if id in self.jobs and self.jobs[id].run is None}
        for id in found:
            del self._doomed[id]
        return found

    def facts(self, at: float) -> list[f.Fact]:
        """What must be deferred or cleared now."""
        while self.next_begin_at <= at:
            self._dirty[heappop(self._begins)[1]] = None
        dirty, self._dirty = self._dirty, {}
        if not dirty:
            return []
        # Who comes in may put somebody else out: all that share a limit are looked at together.
        limits = {user: self.limit_of(user) for user in sorted({self.notes[id].light.user for id in dirty})}
        for user, limit in limits.items():
            if limit is not None:
                dirty.update(self.by_user[user])
        over_array: set[JobId] = set()
        for array in sorted({self.notes[id].light.array for id in dirty} - {""}):
            over_array |= self._over_array(array, at)
            dirty.update(self._by_array[array])
        over_user: set[JobId] = set()
        for user, limit in limits.items():
            if limit is not None:
                over_user |= self._over_limit(user, limit, at, over_array)
        found: list[f.Fact] = []
        for id in dirty:
            job = self.jobs[id]
            if job.run is not None or job.cancelled:
                continue
            why = self._own(id, at) or (ARRAY if id in over_array else QUOTA if id in over_user else "")
            if job.deferred == BACKOFF:
                if why:  # the core would let it go when its back-off ends, whatever the limit says then
                    self._backoffs[id] = job.deferred_until
                    found.append(f.JobDeferred(at, id, why))
            elif why and why != job.deferred:
                found.append(f.JobDeferred(at, id, why))
            elif job.deferred and not why:
                until = self._backoffs.pop(id, at)
                found.append(f.JobDeferred(at, id, BACKOFF, until) if until > at else f.JobCleared(at, id))
        return found

    def bars(self, id: JobId, at: float) -> str:
        """What keeps the job from queueing again if its run ends now: a limit may have become lower."""
        light = self.notes[id].light
        if why := self._own(id, at):
            return why
        over_array = self._over_array(light.array, at, ending=id) if light.array else set()
        if id in over_array:
            return ARRAY
        limit = self.limit_of(light.user)
        is_over = limit is not None and id in self._over_limit(light.user, limit, at, over_array, ending=id)
        return QUOTA if is_over else ""

    def _own(self, id: JobId, at: float) -> str:
        """What keeps this one job waiting, whatever the others do."""
        note = self.notes[id]
        if needs := self._needs.get(id):
            return PREFLIGHT if needs == {note.preflight_job} else DEPENDENCY
        if note.light.begin_at is not None and note.light.begin_at > at:
            return BEGIN
        return ""

    def _in_line(self, ids: Iterable[JobId], at: float, ending: JobId | None) -> list[JobState]:
        """Those of them that could queue, who has run first; the run of `ending` counts as over."""
        jobs = [self.jobs[id] for id in ids]
        jobs = [job for job in jobs if job.run is not None or not (job.held or self._own(job.id, at))]
        return sorted(jobs, key=lambda job: (job.run is None or job.id == ending, not job.runs, job.id))

    def _over_array(self, array: str, at: float, ending: JobId | None = None) -> set[JobId]:
        ids = self._by_array.get(array, {})
        limits = [n for id in ids if (n := self.notes[id].light.array_limit) is not None]
        if not limits:
            return set()
        return {job.id for job in self._in_line(ids, at, ending)[min(limits) :]}

    def _over_limit(
        self, user: str, limit: int, at: float, barred: set[JobId], ending: JobId | None = None
    ) -> set[JobId]:
        left, over = limit, set()
        for job in self._in_line(self.by_user[user], at, ending):
            if job.id in barred:
                continue
            if (job.run is None or job.id == ending) and job.gpus > left:
                over.add(job.id)
            else:
                left -= job.gpus
        return over
