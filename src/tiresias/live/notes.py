"""What the manager must know of a job after a restart, beyond what the core keeps in its State."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from tiresias.core.model import JobId
from tiresias.live.submission import Submission


@dataclass(slots=True)
class Note:
    """`light` is the submission without its environment, which is read when a run starts."""

    light: Submission
    retries_used: int = 0
    lost_runs: int = 0  # how often what became of a run was not known
    quick_requeues: int = 0  # runs in a row that asked at once to be run again
    is_expired: bool = False  # its time limit has passed
    preflight_of: JobId | None = None  # it only tries out this job's command
    preflight_job: JobId | None = None  # the job that tries out its command
    is_tried: bool = False  # a preflight that has seen enough
    failure: dict[str, Any] = field(default_factory=dict)  # how the last run failed: kind, sentence, evidence
    progress: dict[str, Any] | None = None  # as the last closed run told
    ready_at: float | None = None  # before its first run, since when only its turn was to come; None: always

    @classmethod
    def of(cls, submission: Submission) -> Self:
        return cls(replace(submission, env={}))

    def to_json(self) -> dict[str, Any]:
        """As it is now; its parts are replaced when they change, never changed themselves."""
        return {name: getattr(self, name) for name in NAMES} | {"light": self.light.to_json()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(**{**body, "light": Submission.from_json(body["light"])})

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.light)


NAMES = [each.name for each in fields(Note)]


def fingerprint(asked: Submission) -> str:
    """The same for the same command of the same user in the same directory."""
    text = "\0".join((asked.user, asked.cwd, *asked.command))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class Notes(dict[JobId, Note]):
    """Those of all active jobs, by id; `enter`, `change` and `leave` also keep them by name and snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, dict[JobId, None]] = {}
        self._by_snapshot: dict[str, dict[JobId, None]] = {}

    def enter(self, id: JobId, note: Note) -> Note:
        self[id] = note
        self._by_name.setdefault(note.light.name, {})[id] = None
        if note.light.snapshot:
            self._by_snapshot.setdefault(note.light.snapshot, {})[id] = None
        return note

    def change(self, id: JobId, light: Submission) -> None:
        """Something else is asked for now."""
        note = self.leave(id)
        note.light = light
        self.enter(id, note)

    def leave(self, id: JobId) -> Note:
        note = self.pop(id)
        for index, word in ((self._by_name, note.light.name), (self._by_snapshot, note.light.snapshot)):
            if ids := index.get(word):
                ids.pop(id, None)
                if not ids:
                    del index[word]
        return note

    def named(self, name: str) -> list[JobId]:
        return list(self._by_name.get(name, ())) if name else []

    def is_used(self, snapshot: str) -> bool:
        """Whether an active job runs in this copy."""
        return snapshot in self._by_snapshot
