"""Orders inside a queue. They decide who gives way when a queue does not fit as a whole.

Each takes the job, its queue, since when it has run in this queue, and whether it is just entering it (or,
if it waits, was stopped as it entered), and gives the rank: (queue, class, number).
"""

from __future__ import annotations

from collections.abc import Callable

from tiresias.core.model import Phase, Rank
from tiresias.core.state import JobState

STOPPING = Phase.STOPPING
RUNS, STOPPED, NEW, ENTERING = 0, 1, 2, 3

Order = Callable[[JobState, int, float, bool], Rank]


def first_start(job: JobState, queue: int, since: float, entering: bool) -> Rank:
    """By first start; who never started comes after, by submission (the paper)."""
    if job.runs:
        return (queue, RUNS, job.first_started_at)
    return (queue, NEW, job.submitted_at)


def running_first(job: JobState, queue: int, since: float, entering: bool) -> Rank:
    """Who runs stays ahead of who waits; otherwise by first start."""
    if job.runs:
        waits = STOPPED if job.run is None or job.phase is STOPPING else RUNS
        return (queue, waits, job.first_started_at)
    return (queue, NEW, job.submitted_at)


def last_preempted_first(job: JobState, queue: int, since: float, entering: bool) -> Rank:
    """Who runs, by when it came to run in the queue; then who was preempted, the latest first; then the new.

    As in the authors' code a running job enters a lower queue at its end. It moves in front of those who
    wait there if the plan of that instant lets it go on, and stays behind them otherwise.
    """
    if job.run is not None and job.phase is not STOPPING:
        return (queue, ENTERING if entering else RUNS, since)
    if job.runs:
        at = job.last_preempted_at
        return (queue, NEW, at) if entering else (queue, STOPPED, -at)
    return (queue, NEW, job.submitted_at)


ORDERS: dict[str, Order] = {
    "first-start": first_start,
    "running-first": running_first,
    "last-preempted-first": last_preempted_first,
}
