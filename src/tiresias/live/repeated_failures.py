"""Commands that fail in the same way each time: a new submission of such a command is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.live.journal import Input, Taken
from tiresias.live.managed_jobs import fingerprint
from tiresias.live.submission import Submission
from tiresias.store import StoredEnding

MOST_REMEMBERED = 1000


class Failure(NamedTuple):
    """A command that failed in the same way `times` times in a row, last in this job."""

    times: int
    job_id: JobId
    reason: str
    words: str


class RepeatedFailures:
    """The part that remembers them, by the fingerprint of the command."""

    next_due_at = INFINITY

    def __init__(self, latest: Iterable[StoredEnding]):
        self._failures: dict[str, Failure] = {}  # the latest last
        for ended in latest:
            self.remember(ended.id, ended.phase, ended.ending)

    def __len__(self) -> int:
        return len(self._failures)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._failures

    def of(self, spec: Submission) -> Failure | None:
        """How this very command has failed before."""
        return self._failures.get(fingerprint(spec)) if self._failures else None

    def on(self, taken: Taken) -> list[Input]:
        for ended in taken.ended:
            self.remember(ended.job.id, ended.job.phase, ended.ending)
        return []

    def due(self, at: float) -> list[Input]:
        return []

    def remember(self, id: JobId, phase: Phase, ending: Mapping[str, Any]) -> None:
        mark = ending.get("fingerprint", "")
        if phase is Phase.SUCCEEDED:
            self._failures.pop(mark, None)
        elif phase is Phase.FAILED and ending.get("is_deterministic"):
            reason = ending["reason"]
            before = self._failures.pop(mark, None)
            times = before.times + 1 if before is not None and before.reason == reason else 1
            self._failures[mark] = Failure(times, id, reason, ending.get("evidence") or ending["sentence"])
            if len(self._failures) > MOST_REMEMBERED:
                del self._failures[next(iter(self._failures))]
