"""What the planner knows about a job, apart from the job's own state.

An `Entry` is what a Target needs: a demand, a key and whether it is admitted. It knows no job, so a Target
can share out anything that is counted. A `JobEntry` is the Controller's: it belongs to one active job. The
Controller makes all of them anew from the State when every rank changes, and none of them is stored.
"""

from __future__ import annotations

from typing import Any

from tiresias.core.model import INFINITY, JobId
from tiresias.core.state import JobState

Key = tuple[Any, ...]
"""A rank key: (priority class, the policy's rank, submission, id), flat so that it compares fast."""


class Entry:
    """One participant of a Target, which alone sets `key` and `admitted`."""

    __slots__ = ("admitted", "gpus", "id", "key")

    def __init__(self, id: JobId, gpus: int):
        self.id = id
        self.gpus = gpus  # its demand; it must not change while the entry is ranked
        self.key: Key | None = None  # None: it is not ranked
        self.admitted = False


class JobEntry(Entry):
    """The entry of an active job in the Controller's plan."""

    __slots__ = ("job", "pinned", "wakes_at")

    def __init__(self, job: JobState):
        self.id = job.id
        self.gpus = job.gpus
        self.key = None
        self.admitted = False
        self.job = job
        self.pinned = False  # its run holds slots that no plan may take; it is not ranked then
        self.wakes_at = INFINITY  # the instant at which its rank or its pin changes by itself
