"""Which active jobs are listed, and in which order: filters, search and sorting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.state import JobState
from tiresias.live.answers import JobSummary
from tiresias.live.errors import Invalid

SLICE = 512  # jobs whose rows are made at once
IN_ORDER = "rank"  # the order in which jobs are served
SORTS: dict[str, Callable[[JobState, float], Any]] = {
    "id": lambda job, now: job.id,
    "name": lambda job, now: job.job.name,
    "user": lambda job, now: job.user,
    "tenant": lambda job, now: job.tenant,
    "phase": lambda job, now: job.phase.value,
    "gpus": lambda job, now: job.gpus,
    "runs": lambda job, now: job.runs,
    "preemptions": lambda job, now: job.preemptions,
    "service": lambda job, now: job.service_at(now),
    "submitted": lambda job, now: job.submitted_at,
    "wait": lambda job, now: now - job.submitted_at - job.executed_at(now),
}


@dataclass(slots=True, frozen=True)
class Filter:
    """Which jobs are wanted; what is empty or None filters nothing."""

    user: str | None = None
    tenant: str | None = None
    phases: Collection[str] = ()
    search: str = ""  # part of the name, the user or the tenant in any case, or the id

    def matches(self, id: int, name: str, user: str, tenant: str, phase: str) -> bool:
        if self.user is not None and user != self.user:
            return False
        if self.tenant is not None and tenant != self.tenant:
            return False
        if self.phases and phase not in self.phases:
            return False
        wanted = self.search.casefold()
        if not wanted:
            return True
        return wanted == str(id) or any(wanted in each.casefold() for each in (name, user, tenant))

    def takes(self, job: JobState) -> bool:
        return self.matches(job.id, job.job.name, job.user, job.tenant, job.phase.value)

    def of(self, jobs: Iterable[JobState]) -> list[JobState]:
        """Those of many jobs that match, in their order. What filters nothing costs nothing."""
        found = list(jobs)
        if self.user is not None:
            found = [job for job in found if job.job.user == self.user]
        if self.tenant is not None or self.phases or self.search:
            found = [job for job in found if self.takes(job)]
        return found


EVERYTHING = Filter()


@dataclass(slots=True)
class Page:
    """A page of the list. The cursor and the total are right once all slices have been made."""

    slices: Iterator[list[JobSummary]] = field(default_factory=lambda: iter(()))
    following: int | None = None  # the cursor of the next page; None: there is none
    total: int = 0  # active jobs on all pages


def check_sort(sort: str) -> None:
    if sort.removeprefix("-") not in (IN_ORDER, *SORTS):
        known = ", ".join((IN_ORDER, *SORTS))
        raise Invalid(f"sort: jobs cannot be sorted by {sort[:80]!r}; choose from {known}; - is falling")


def ordered(jobs: Iterable[JobState], wanted: Filter, sort: str, now: float) -> list[JobState]:
    """Those of the jobs that are wanted, in this order; ties are in the order in which they are served."""
    found = wanted.of(jobs)
    name = sort.removeprefix("-")
    if name == IN_ORDER:
        return found[::-1] if sort != name else found
    key = SORTS[name]
    found.sort(key=lambda job: key(job, now), reverse=sort != name)
    return found
