"""What the manager must know about a job after a restart, beyond what the core keeps in its State.

Rules: a ManagedJob is a value. It changes only through `ManagedJobs.change`, which remembers that the job has
to be stored again; the journal writes the changed ones with its next commit. So a change cannot be
forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Self

from tiresias.core.model import JobId
from tiresias.live.submission import Submission

SPEC = "light"  # the stored name of `spec`


@dataclass(slots=True, frozen=True)
class ManagedJob:
    """`spec` is what the user asked for, without the environment and the account: a start reads both."""

    spec: Submission
    retries_used: int = 0
    lost_runs: int = 0  # runs whose exit is unknown
    quick_requeues: int = 0  # consecutive runs that asked to be run again as soon as they had started
    is_expired: bool = False  # its time limit has passed
    preflight_of: JobId | None = None  # this job is the preflight of that one
    preflight_job: JobId | None = None  # that job is the preflight of this one
    is_tried: bool = False  # this preflight has run for long enough
    failure: dict[str, Any] = field(default_factory=dict)  # of the last run: reason, sentence, evidence
    progress: dict[str, Any] | None = None  # the last progress report of the last run that has exited
    steps: list[int] | None = None  # the first and the last that its last run reported, if that was stopped
    kept_s: float = 0.0  # seconds of its runs whose work it may still have
    lost_s: float = 0.0  # seconds of its runs whose work it lost because it was not saved
    unsaved_runs: int = 0  # how many of its runs these were
    ready_at: float | None = (
        None  # when it was last cleared to queue before its first run; None: at submission
    )

    def to_json(self) -> dict[str, Any]:
        body = dict(zip(STORED_NAMES, _values(self), strict=True))
        body[SPEC] = self.spec.to_short_json()
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        spec = Submission.from_json(body[SPEC])
        if list(body) != STORED_NAMES:  # an earlier version wrote it
            return cls(spec, **{name: value for name, value in body.items() if name != SPEC})
        new = object.__new__(cls)
        for assign, value in zip(ASSIGN, body.values(), strict=True):  # a restart makes one per active job
            assign(new, value)
        SET_SPEC(new, spec)
        return new

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.spec)


NAMES = [each.name for each in fields(ManagedJob)]
STORED_NAMES = [SPEC, *NAMES[1:]]
ASSIGN = [getattr(ManagedJob, name).__set__ for name in NAMES]  # to the slots of a value that is new
SET_SPEC = ASSIGN[0]
_values = attrgetter(*NAMES)


def fingerprint(spec: Submission) -> str:
    """The same for the same command of the same user in the same directory."""
    text = "\0".join((spec.user, spec.cwd, *spec.command))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class ManagedJobs(dict[JobId, ManagedJob]):
    """All active jobs by id, with indexes by name and by snapshot directory.

    `limited` has the jobs with a time limit, and `retimed` those of them at which time_limits.py has to look
    anew. `preflights` has the jobs whose runs are stopped when they have been seen to work.

    A dictionary, because it is read for every run at every turn; it is changed by the methods below only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, dict[JobId, None]] = {}
        self._by_snapshot: dict[str, dict[JobId, None]] = {}
        self.limited: dict[JobId, None] = {}
        self.retimed: dict[JobId, None] = {}
        self.preflights: dict[JobId, None] = {}
        self._changed: dict[JobId, None] = {}

    def load(self, id: JobId, job: ManagedJob) -> None:
        """Take in a job that is stored already."""
        self[id] = job
        self._by_name.setdefault(job.spec.name, {})[id] = None
        if job.spec.snapshot:
            self._by_snapshot.setdefault(job.spec.snapshot, {})[id] = None
        if job.spec.time_limit_s is not None:
            self.limited[id] = self.retimed[id] = None
        if job.preflight_of is not None:
            self.preflights[id] = None

    def add(self, id: JobId, job: ManagedJob) -> None:
        self.load(id, job)
        self._changed[id] = None

    def change(self, id: JobId, **changes: Any) -> ManagedJob:
        """Replace some fields of a job; it is stored with the next commit."""
        job = replace(self[id], **changes)
        if "spec" in changes or "preflight_of" in changes:
            self.remove(id)
            self.load(id, job)
        else:
            self[id] = job
        self._changed[id] = None
        return job

    def remove(self, id: JobId) -> ManagedJob:
        job = self.pop(id)
        for index, word in ((self._by_name, job.spec.name), (self._by_snapshot, job.spec.snapshot)):
            if ids := index.get(word):
                ids.pop(id, None)
                if not ids:
                    del index[word]
        for ids in (self.limited, self.retimed, self.preflights, self._changed):
            ids.pop(id, None)
        return job

    def take_changed(self) -> dict[JobId, dict[str, Any]]:
        """The jobs that have changed since the last call, as they are stored."""
        changed, self._changed = self._changed, {}
        return {id: self[id].to_json() for id in changed}

    def named(self, name: str) -> Iterator[JobId]:
        """The jobs of this name, the latest first."""
        return reversed(self._by_name.get(name, {})) if name else iter(())

    def is_snapshot_used(self, path: str) -> bool:
        """Whether an active job runs in this copy of a working directory."""
        return path in self._by_snapshot
