"""Ranks of the naive reference, from their definitions: smaller first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiresias.testing.reference import RefJob, Settings

Rank = tuple[float, ...]

TINY_GPU_S = 1e-6


def queue_of(job: RefJob, thresholds: Sequence[float], at: float) -> int:
    """How many thresholds its attained service (GPUs x seconds) has reached."""
    service = job.gpus * job.held_at(at)
    return len([threshold for threshold in thresholds if service >= threshold - TINY_GPU_S])


def quanta(job: RefJob, quantum_s: float, at: float) -> int:
    """For how many whole quanta its run has worked; loading is no work."""
    stopped_loading = not job.runs_on and job.preempted_at < job.works_from
    return 0 if at < job.works_from or stopped_loading else floor((at - job.works_from) / quantum_s + 1e-9)


def starves_at(job: RefJob, thresholds: Sequence[float], knob: float) -> float:
    """When a waiting job below the first queue will have waited knob times as long as it has executed."""
    if job.holds or queue_of(job, thresholds, 0.0) == 0:
        return inf
    since = job.submitted_at if job.promoted_at is None else job.promoted_at
    executed_s = job.held_at(0.0)
    return since + executed_s + knob * executed_s


def arrival(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.submitted_at,)


def length(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.duration_s, job.submitted_at)


def remaining_time(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.duration_s - job.done_at(at), job.submitted_at)


def remaining_service(job: RefJob, settings: Settings, at: float) -> Rank:
    return ((job.duration_s - job.done_at(at)) * job.gpus, job.submitted_at)


def attained_service(job: RefJob, settings: Settings, at: float) -> Rank:
    """As it was when the run had worked for the last of its whole quanta, or when it began."""
    if job.granted_at is not None:
        worked = quanta(job, settings.quantum_s, at)
        at = job.works_from + worked * settings.quantum_s if worked else job.granted_at
    return (job.gpus * job.held_at(at), job.submitted_at)


def queues(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.queue, *ORDERS[settings.order](job), job.submitted_at)


def first_start(job: RefJob) -> Rank:
    """Who has started, by when it first did; then the others, by submission."""
    return (0, job.first_started_at) if job.first_started_at is not None else (1, job.submitted_at)


def running_first(job: RefJob) -> Rank:
    """The same, but who runs stays ahead of who does not."""
    if job.first_started_at is None:
        return (2, job.submitted_at)
    return (0 if job.runs_on else 1, job.first_started_at)


def last_preempted_first(job: RefJob) -> Rank:
    """Who runs, by when it came to run in this queue; who was preempted in it, the latest first; the others.

    As in the authors' lists a job comes to the end of a queue: of the first when it is new or promoted, of a
    lower one when it falls into it. There it stays until it gets to run in that queue.
    """
    if job.runs_on and not job.is_entering:
        return (0, job.in_queue_since)
    if job.preempted_at > job.joined_at:
        return (1, -job.preempted_at)
    return (2, job.joined_at)


ORDERS: dict[str, Callable[[RefJob], Rank]] = {
    "first-start": first_start,
    "running-first": running_first,
    "last-preempted-first": last_preempted_first,
}

RANKS: dict[str, Callable[[RefJob, Settings, float], Rank]] = {
    "fifo": arrival,
    "fifo-skip": arrival,
    "sjf": length,
    "srtf": remaining_time,
    "srsf": remaining_service,
    "las": attained_service,
    "tiresias-l": queues,
}
