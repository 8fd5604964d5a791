"""Jobs that share a limit, in line for it.

Those that hold slots come first, then those that have run before, then the others, by id. Each takes its
part of the limit if it fits into what those ahead leave, and is skipped otherwise. That is what a plan's
target does with ranked jobs, so the core's Target keeps it: a change costs hardly more with ten thousand in
line than with ten.
"""

from __future__ import annotations

from tiresias.core.entries import Entry
from tiresias.core.model import JobId
from tiresias.core.state import JobState
from tiresias.core.target import Target


class Line:
    """`put` and `leave` tell what became of one job; `turned` whose standing changed through that."""

    def __init__(self, limit: int):
        self.limit = limit
        self._holding: dict[JobId, int] = {}  # what they hold is theirs, even above the limit
        self._waiting: dict[JobId, Entry] = {}
        self._target: Target[Entry] = Target(limit)

    def __len__(self) -> int:
        return len(self._holding) + len(self._waiting)

    def put(self, job: JobState, size: int, *, holds: bool) -> None:
        """The job is in line for so much of the limit, or holds it."""
        key = (not job.runs, job.id)
        if holds:
            if job.id not in self._holding:
                self._quit(job.id)
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
        """The job is not in line, or not any more."""
        held = self._holding.pop(id, 0)
        if held:
            self._target.resize(self._target.capacity + held)
        self._quit(id)

    def _quit(self, id: JobId) -> None:
        entry = self._waiting.pop(id, None)
        if entry is not None:
            self._target.drop(entry)

    def set_limit(self, limit: int) -> None:
        if limit != self.limit:
            self._target.resize(self._target.capacity + limit - self.limit)
            self.limit = limit

    def is_over(self, id: JobId) -> bool:
        """Whether the job waits for its part of the limit."""
        entry = self._waiting.get(id)
        return entry is not None and not entry.admitted

    def has_room(self, size: int) -> bool:
        """Whether one more that came last would fit."""
        return self._target.used + size <= self._target.capacity

    def turned(self) -> list[JobId]:
        """Whose standing may have changed since the last call."""
        turned = list(self._target.flips)
        self._target.flips.clear()
        return turned
