"""Jobs that share a limit, in the order in which they get a share of it.

Jobs that hold slots come first, then jobs that have run before, then the others, by id. Each takes its share
if it fits into what those ahead leave, and is skipped otherwise. The target does just that with ranked jobs,
so the core's Target does the work: a change costs hardly more with ten thousand jobs than with ten.
"""

from __future__ import annotations

from tiresias.core.entries import Entry
from tiresias.core.model import JobId
from tiresias.core.state import JobState
from tiresias.core.target import Target


class LimitQueue:
    """Update it with `put` and `leave`; `changed` names the jobs that may have come inside or outside."""

    def __init__(self, limit: int):
        self.limit = limit
        self._holding: dict[JobId, int] = {}  # they keep their shares, even above the limit
        self._waiting: dict[JobId, Entry] = {}
        self._target: Target[Entry] = Target(limit)

    def __len__(self) -> int:
        return len(self._holding) + len(self._waiting)

    def put(self, job: JobState, size: int, *, holds: bool) -> None:
        """The job wants a share of this size, or holds slots already."""
        key = (not job.runs, job.id)
        if holds:
            if job.id not in self._holding:
                self._drop(job.id)
                self._holding[job.id] = size
                self._target.resize(self._target.capacity - size)
            return
        waiting = self._waiting.get(job.id)
        if waiting is not None and waiting.key == key:
            return
        self.leave(job.id)
        entry = self._waiting[job.id] = Entry(job.id, size)
        self._target.add(entry, key)

    def leave(self, id: JobId) -> None:
        """The job wants nothing; it need not have been put in."""
        size = self._holding.pop(id, 0)
        if size:
            self._target.resize(self._target.capacity + size)
        self._drop(id)

    def _drop(self, id: JobId) -> None:
        entry = self._waiting.pop(id, None)
        if entry is not None:
            self._target.drop(entry)

    def set_limit(self, limit: int) -> None:
        if limit != self.limit:
            self._target.resize(self._target.capacity + limit - self.limit)
            self.limit = limit

    def is_over(self, id: JobId) -> bool:
        """Whether the job has to wait for its share."""
        entry = self._waiting.get(id)
        return entry is not None and not entry.admitted

    def has_room(self, size: int) -> bool:
        """Whether one more job, the last one, would get a share of this size."""
        return self._target.used + size <= self._target.capacity

    def changed(self) -> list[JobId]:
        """The jobs for which `is_over` may have changed since the last call."""
        changed = list(self._target.flips)
        self._target.flips.clear()
        return changed
