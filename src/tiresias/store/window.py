"""What happened since an instant: the jobs and the runs that were there, read by indexes.

Rules: what ended before the instant is not read. A run that held slots after it belongs to a job that is
active or that ended after it; so the index of ended jobs by their end finds all runs, and their number alone
decides what a window costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.model import JobId, RunId
from tiresias.store.rows import Row, slots_in


@dataclass(slots=True, frozen=True)
class JobSpan:
    """A job from the instant at which it could first have run until its end; None stands for "not yet"."""

    id: JobId
    user: str
    tenant: str
    gpus: int
    ready_at: float | None  # None: it waits for something else than its rank
    first_started_at: float | None
    ended_at: float | None


@dataclass(slots=True, frozen=True)
class HeldSlots:
    """A run and the slots that it held; `exited_at` is None while it holds them."""

    id: RunId
    job_id: JobId
    user: str
    number: int
    allocation: Allocation
    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float | None
    cause: str | None


_ENDED = (
    "SELECT id, user, tenant, gpus, coalesce(json_extract(ending, '$.ready_at'), submitted_at),"
    " first_started_at, ended_at FROM history WHERE ended_at >= ? ORDER BY ended_at DESC LIMIT ?"
)
_ACTIVE = (  # decoding ten thousand jobs in Python would take the interpreter from the manager for too long
    "SELECT id, json_extract(job, '$.user'), json_extract(job, '$.tenant'),"
    " json_extract(job, '$.demand.gpus'),"
    " CASE WHEN first_started_at IS NULL AND (on_hold OR deferred != '') THEN NULL ELSE coalesce("
    "(SELECT json_extract(body, '$.ready_at') FROM managed WHERE managed.job = jobs.id),"
    " json_extract(job, '$.submitted_at')) END, first_started_at, NULL FROM jobs"
)
_RUNS = (
    "SELECT runs.id, runs.job, user, number, allocation, granted_at, started_at, revoked_at, exited_at, cause"
    " FROM (SELECT id, json_extract(job, '$.user') AS user FROM jobs"
    " UNION ALL SELECT id, user FROM history WHERE ended_at >= ?1) AS there"
    " CROSS JOIN runs ON runs.job = there.id WHERE exited_at IS NULL OR exited_at >= ?1"
    " ORDER BY granted_at DESC, runs.id DESC LIMIT ?2"
)


class Window:
    """Reads them; `Reader.window` is one. `rows` executes a query and returns its rows."""

    def __init__(self, rows: Callable[..., list[Row]]):
        self._all = rows

    def ended(self, since_at: float, most: int) -> list[JobSpan]:
        """The jobs that have ended since then, the latest first, at most so many."""
        return [JobSpan(JobId(id), *more) for id, *more in self._all(_ENDED, since_at, most)]

    def active(self) -> list[JobSpan]:
        """All jobs that have not ended."""
        return [JobSpan(JobId(id), *more) for id, *more in self._all(_ACTIVE)]

    def runs(self, since_at: float, most: int) -> list[HeldSlots]:
        """The runs that held slots after that instant, the latest first, at most so many."""
        return [
            HeldSlots(RunId(id), JobId(job), user, number, slots_in(allocation)[0], *more)
            for id, job, user, number, allocation, *more in self._all(_RUNS, since_at, most)
        ]
