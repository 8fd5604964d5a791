"""Who may not even queue: jobs that wait for other jobs, an instant, a preflight, a limit of user or array.

The core knows only that a job is deferred and why. What lifts it is here: `touch_job` names a job of which
something changed, and `facts` compares what should be with what is, for that job and for whom it concerns. A
limit on running GPUs counts every job that may queue, running or not, the ones that have run first (see
lines.py): so a user is never above it, and splitting work into many small jobs gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId
from tiresias.core.state import JobState
from tiresias.live.lines import Line
from tiresias.live.notes import Note
from tiresias.live.reports import Limits
from tiresias.live.submission import Submission

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
        self._of_user: dict[str, Line] = {}  # of users with a limit
        self._of_array: dict[str, Line] = {}
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
        self._leave(self._of_array, light.array, id)
        self._leave(self._of_user, light.user, id)
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

    def _leave(self, lines: dict[str, Line], name: str, id: JobId) -> None:
        line = lines.get(name)
        if line is None:
            return
        line.leave(id)
        self._dirty.update(dict.fromkeys(line.turned()))
        if not len(line):
            del lines[name]

    def touch_job(self, id: JobId) -> None:
        """Something became of this job."""
        if id in self.jobs:
            self._dirty[id] = None

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
        found = []
        for id in self._concerned(dirty, at):
            fact = self._fact(self.jobs[id], at)
            if fact is not None:
                found.append(fact)
        return found

    def _concerned(self, dirty: Iterable[JobId], at: float) -> list[JobId]:
        """Those of whom something changed, and those whose standing changes through that."""
        seen = dict.fromkeys(dirty)
        for id in list(seen):
            if (line := self._array_line(id)) is not None:
                self._stand(line, id, 1, may_queue=self._may_queue(id, at))
                seen.update(dict.fromkeys(line.turned()))
        for id in list(seen):
            if (line := self._user_line(id)) is not None:
                self._stand(line, id, self.jobs[id].gpus, may_queue=self._may_queue(id, at, in_array=True))
                seen.update(dict.fromkeys(line.turned()))
        return list(seen)

    def _stand(self, line: Line, id: JobId, size: int, *, may_queue: bool) -> None:
        """Bring what the line knows of a job up to date."""
        job = self.jobs[id]
        if job.run is not None or may_queue:
            line.put(job, size, holds=job.run is not None)
        else:
            line.leave(id)

    def _may_queue(self, id: JobId, at: float, *, in_array: bool = False) -> bool:
        """Whether only a limit can keep it waiting; who waits for its array takes nothing from its user's."""
        if self.jobs[id].held or self._own(id, at):
            return False
        return not (in_array and self._is_over_array(id))

    def _is_over_array(self, id: JobId) -> bool:
        line = self._of_array.get(self.notes[id].light.array)
        return line is not None and line.is_over(id)

    def _over(self, id: JobId) -> str:
        """Which limit keeps the job waiting."""
        if self._is_over_array(id):
            return ARRAY
        line = self._of_user.get(self.notes[id].light.user)
        return QUOTA if line is not None and line.is_over(id) else ""

    def _array_line(self, id: JobId) -> Line | None:
        light = self.notes[id].light
        line = self._of_array.get(light.array)
        if light.array_limit is not None:
            if line is None:
                line = self._of_array[light.array] = Line(light.array_limit)
            line.set_limit(min(line.limit, light.array_limit))
        return line

    def _user_line(self, id: JobId) -> Line | None:
        """Made when the first of the user's jobs is looked at: then all of them are."""
        user = self.notes[id].light.user
        limit = self.limit_of(user)
        if limit is None:
            self._of_user.pop(user, None)
            return None
        line = self._of_user.get(user)
        if line is None:
            line = self._of_user[user] = Line(limit)
        line.set_limit(limit)
        return line

    def bars(self, id: JobId, at: float) -> str:
        """What keeps the job from queueing again if its run ends now: a limit may have become lower."""
        if why := self._own(id, at):
            return why
        job = self.jobs[id]
        if (line := self._array_line(id)) is not None:
            line.put(job, 1, holds=False)
        if (line := self._user_line(id)) is not None and not self._is_over_array(id):
            line.put(job, job.gpus, holds=False)
        return self._over(id)

    def would_bar(self, asked: Submission, at: float) -> str:
        """What would keep a new job from queueing."""
        if any(other in self.jobs for other in asked.after):
            return DEPENDENCY
        if asked.begin_at is not None and asked.begin_at > at:
            return BEGIN
        line = self._of_user.get(asked.user)
        return QUOTA if line is not None and not line.has_room(asked.gpus) else ""

    def _fact(self, job: JobState, at: float) -> f.Fact | None:
        """What this job must be told."""
        id = job.id
        if job.run is not None or job.cancelled:
            return None
        why = self._own(id, at) or self._over(id)
        if job.deferred == BACKOFF:
            if not why:
                return None
            self._backoffs[id] = job.deferred_until  # the core would let it go then, whatever the limit says
            return f.JobDeferred(at, id, why)
        if why:
            return f.JobDeferred(at, id, why) if why != job.deferred else None
        if not job.deferred:
            return None
        until = self._backoffs.pop(id, at)
        return f.JobDeferred(at, id, BACKOFF, until) if until > at else f.JobCleared(at, id)

    def _own(self, id: JobId, at: float) -> str:
        """What keeps this one job waiting, whatever the others do."""
        note = self.notes[id]
        if needs := self._needs.get(id):
            return PREFLIGHT if needs == {note.preflight_job} else DEPENDENCY
        if note.light.begin_at is not None and note.light.begin_at > at:
            return BEGIN
        return ""
