"""What reading gives: values, none of them tied to the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tiresias.core.facts import Allocation, ExitCause, Fact
from tiresias.core.model import INFINITY, Job, JobId, Phase, RunId
from tiresias.core.state import JobState
from tiresias.store import codec
from tiresias.store.rows import Row


@dataclass(slots=True)
class StoredFact:
    """A fact and its place in the journal; the facts of one step were handled together."""

    seq: int
    step: int
    is_decision: bool
    fact: Fact
    job_id: JobId | None = None  # whom it is about


@dataclass(slots=True)
class RunRecord:
    """One run, for ever; None is "not yet"."""

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


@dataclass(slots=True, frozen=True)
class RunSpan:
    """When a closed run held its slots, and what its training told: (instant, step) first and last."""

    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float
    first: tuple[float, int | None] | None = None
    last: tuple[float, int | None] | None = None


@dataclass(slots=True)
class JobRecord:
    """A job, active or ended, as of the last commit. `service_gpu_s` is that of its closed runs."""

    id: JobId
    job: Job
    phase: Phase
    first_started_at: float | None
    ended_at: float | None
    runs: int
    preemptions: int
    held_s: float
    service_gpu_s: float
    progress_s: float
    record: Any = None  # what the manager kept of it when it ended
    ended_seq: int | None = None

    @classmethod
    def ending(cls, job: JobState, record: Any) -> JobRecord:
        """A job that has ended, before that is in the journal."""
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
            record,
        )


@dataclass(slots=True)
class TokenRecord:
    name: str
    user: str
    role: str
    created_at: float


FACT = "seq, step, decided, kind, version, body, job"
RUN = "id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, cause, exit"
_FIGURES = "runs, preemptions, held_s, service_gpu_s, progress_s"
ACTIVE = f"id, job, phase, first_started_at, NULL, {_FIGURES}, NULL, NULL"
ENDED = f"id, job, phase, first_started_at, ended_at, {_FIGURES}, record, ended_seq"


def fact_of(row: Row) -> StoredFact:
    seq, step, decided, kind, version, body, job = row
    fact = codec.decode_fact(kind, version, body)
    return StoredFact(seq, step, bool(decided), fact, None if job is None else JobId(job))


def run_of(row: Row) -> RunRecord:
    id, job_id, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, cause, exit = (
        row
    )
    return RunRecord(
        RunId(id),
        JobId(job_id),
        number,
        tuple((node, mask) for node, mask in json.loads(allocation)),
        granted_at,
        started_at,
        revoked_at,
        exited_at,
        progress_s,
        None if cause is None else ExitCause(cause),
        None if exit is None else json.loads(exit),
    )


def span_of(row: Row) -> RunSpan:
    """Of a row that ends with what the training told, as the exit record has it."""
    granted_at, started_at, revoked_at, exited_at, told = row
    first, last = (None, None) if told is None else [(at, step) for at, step in json.loads(told)]
    return RunSpan(granted_at, started_at, revoked_at, exited_at, first, last)


def job_of(row: Row) -> JobRecord:
    job = JobRecord(*row)
    job.job = codec.decode_job(row[1])
    job.phase = Phase(job.phase)
    if job.record is not None:
        job.record = json.loads(job.record)
    return job
