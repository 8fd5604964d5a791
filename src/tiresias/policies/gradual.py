"""New knowledge takes effect by and by, so that no instant has to rank all jobs anew.

When a policy has learned something that changes the rank of every job, the jobs go over to it in slices: with
each fact that the policy learns from, the next SLICE ids, the youngest first. How far that has come is a part
of the policy's memory: a manager which restarts in between decides the same, and so does a simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.core.model import JobId

SLICE = 256  # ids that go over with one fact
NOBODY = JobId(-1)
NONE = range(0)


class Transition:
    """How far the jobs have gone over from what was known before to what is known now."""

    __slots__ = ("cursor", "last_id")

    def __init__(self, saved: Sequence[int] = (NOBODY, NOBODY)):
        self.last_id, self.cursor = map(JobId, saved)

    def save(self) -> list[int]:
        return [self.last_id, self.cursor]

    def see(self, id: JobId) -> None:
        """A job has come."""
        if id > self.last_id:
            self.last_id = id

    @property
    def is_over(self) -> bool:
        """Whether every job has gone over; only then may the next transition begin."""
        return self.cursor == NOBODY

    def begin(self) -> None:
        """There is something new: the jobs of today have yet to go over to it."""
        self.cursor = self.last_id

    def has_gone_over(self, id: JobId) -> bool:
        return id > self.cursor

    def advance(self) -> range:
        """The ids that go over now."""
        last = self.cursor
        if last == NOBODY:
            return NONE
        self.cursor = JobId(max(last - SLICE, NOBODY))
        return range(self.cursor + 1, last + 1)
