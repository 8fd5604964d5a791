"""What a Reader returns: plain values with no connection to the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiresias.core.facts import Allocation, ExitCause, Fact
from tiresias.core.model import INFINITY, Job, JobId, Phase, RunId
from tiresias.core.state import JobState
from tiresias.store import codec
from tiresias.store.rows import PHASES, Row, slots_in


@dataclass(slots=True)
class StoredFact:
    """A fact and its number in the journal. The facts of one step were handled in one call."""

    seq: int
    step: int
    is_decision: bool
    fact: Fact
    job_id: JobId | None = None  # the job that the fact is about


@dataclass(slots=True)
class StoredRun:
    """One run; None stands for "not yet". `exit` is the exit record that the manager stored."""

    id: RunId
    job_id: JobId
    number: int
    allocation: Allocation
    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float | None
    progress_s: float
    cause: ExitCause | None
    exit: Any
    layer: int = 0  # of its slots


@dataclass(slots=True, frozen=True)
class StoredExit:
    """How a run ended, as far as every user may know it."""

    had_to_stop: bool
    reason: str  # a code; empty if none was stored
    was_killed: bool  # because it did not stop in its grace period, or because somebody wanted it at once
    was_at_once: bool = False  # of a run that was killed: it had no grace period


@dataclass(slots=True, frozen=True)
class RunSpan:
    """When an exited run held its slots, and (instant, step) of its first and last progress report."""

    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float
    first: tuple[float, int | None] | None = None
    last: tuple[float, int | None] | None = None


@dataclass(slots=True)
class StoredJob:
    """A job, active or ended, as of the last commit. The figures include only runs that have exited."""

    id: JobId
    job: Job
    phase: Phase
    first_started_at: float | None
    ended_at: float | None
    runs: int
    preemptions: int
    executed_s: float
    service_gpu_s: float
    progress_s: float
    ending: Any = None  # why and how it ended, as `Batch.endings` stored it; None while it is active
    ended_seq: int | None = None

    @classmethod
    def of_ended(cls, job: JobState, ending: Any) -> StoredJob:
        """A job whose end is not committed yet."""
        started_at = None if job.first_started_at == INFINITY else job.first_started_at
        return cls(
            job.id,
            job.job,
            job.phase,
            started_at,
            job.ended_at,
            job.runs,
            job.preemptions,
            job.executed_s,
            job.service_gpu_s,
            job.progress_s,
            ending,
        )


@dataclass(slots=True)
class StoredEnding:
    """How a job has ended. `ending` is what `Batch.endings` stored of it; empty if nothing was."""

    id: JobId
    phase: Phase
    user: str
    name: str
    gpus: int
    ending: Mapping[str, Any]


@dataclass(slots=True)
class StoredToken:
    name: str
    user: str
    role: str
    created_at: float


FACT = "seq, step, decided, kind, version, body, job"
RUN = "id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, cause, exit"
# Exit records of earlier versions have the first and the last progress report under the name `told`.
_REPORTED = "coalesce(json_extract(exit, '$.reported'), json_extract(exit, '$.told'))"
SPAN = f"granted_at, started_at, revoked_at, exited_at, {_REPORTED}"
_FIGURES = "runs, preemptions, executed_s, service_gpu_s, progress_s"
ACTIVE = f"id, job, phase, first_started_at, NULL, {_FIGURES}, NULL, NULL"
ENDED = f"id, job, phase, first_started_at, ended_at, {_FIGURES}, ending, ended_seq"


def fact_of(row: Row) -> StoredFact:
    seq, step, decided, kind, version, body, job = row
    fact = codec.decode_fact(kind, version, body)
    return StoredFact(seq, step, bool(decided), fact, None if job is None else JobId(job))


def run_of(row: Row) -> StoredRun:
    id, job_id, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, cause, exit = (
        row
    )
    slots, layer = slots_in(allocation)
    return StoredRun(
        RunId(id),
        JobId(job_id),
        number,
        slots,
        granted_at,
        started_at,
        revoked_at,
        exited_at,
        progress_s,
        None if cause is None else ExitCause(cause),
        None if exit is None else json.loads(exit),
        layer,
    )


def span_of(row: Row) -> RunSpan:
    granted_at, started_at, revoked_at, exited_at, reported = row
    first, last = (None, None) if reported is None else [(at, step) for at, step in json.loads(reported)]
    return RunSpan(granted_at, started_at, revoked_at, exited_at, first, last)


def ending_of(row: Row) -> StoredEnding:
    id, phase, user, name, gpus, ending = row
    found = {} if ending is None else codec.load(ending)
    return StoredEnding(JobId(id), PHASES[phase], user, name, gpus, found)


def job_of(row: Row) -> StoredJob:
    job = StoredJob(*row)
    job.job = codec.decode_job(row[1])
    job.phase = PHASES[row[2]]
    if job.ending is not None:
        job.ending = codec.load(job.ending)
    return job
