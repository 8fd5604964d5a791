"""Orders inside a queue. They decide which jobs give way when a queue does not fit as a whole.

Each takes the job, its queue, since when it has been there, and whether it is new there: it is just entering
as it runs, or it came there as it waited. It gives the rank: (queue, class, number).
"""

from __future__ import annotations

from collections.abc import Callable

from tiresias.core.model import INFINITY, Phase, Pool, Rank
from tiresias.core.state import JobState

STOPPING, GPUS = Phase.STOPPING, Pool.GPUS
RUNS, STOPPED, NEW = 0, 1, 2

Order = Callable[[JobState, int, float, bool], Rank]


def first_start(job: JobState, queue: int, since: float, is_new: bool) -> Rank:
    """By first start; jobs that never started come after, by submission (the paper)."""
    if job.first_started_at != INFINITY:
        return (queue, RUNS, job.first_started_at)
    return (queue, NEW, job.submitted_at)


def running_first(job: JobState, queue: int, since: float, is_new: bool) -> Rank:
    """Running jobs ahead of waiting ones; otherwise by first start."""
    if job.first_started_at != INFINITY:
        waits = STOPPED if job.phase is STOPPING or job.gpu_run is None else RUNS
        return (queue, waits, job.first_started_at)
    return (queue, NEW, job.submitted_at)


def last_preempted_first(job: JobState, queue: int, since: float, is_new: bool) -> Rank:
    """Who runs, by when it came to run in the queue; then who was preempted, the latest first; then the new.

    As in the authors' code a running job enters a lower queue at its end. It moves in front of those who
    wait there if the plan of that instant lets it go on, and stays behind them otherwise.
    """
    run = job.run
    if run is not None and run.pool is GPUS and job.phase is not STOPPING:
        return (queue, NEW if is_new else RUNS, since)
    if job.runs:
        return (queue, NEW, since) if is_new else (queue, STOPPED, -job.last_preempted_at)
    return (queue, NEW, job.submitted_at)


ORDERS: dict[str, Order] = {
    "first-start": first_start,
    "running-first": running_first,
    "last-preempted-first": last_preempted_first,
}
