"""A State as rows, and back. What the planner works out by itself (key, admitted, pinned, wakes_at) and what
follows from the job (gpus, priority …) is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tiresias.core.model import INFINITY, Cluster, JobId, Phase, RunId
from tiresias.core.state import JobState, Run, State
from tiresias.store import codec
from tiresias.store.errors import StoreError

Row = tuple[Any, ...]

JOB_COLUMNS = (
    "id, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since,"
    " held_s, service_gpu_s, progress_s"
)
RUN_COLUMNS = "id, job, allocation, granted_at, started_at, progress_s, progress_at, speed"
NODE_COLUMNS = "position, node, in_service"


@dataclass(slots=True)
class Rows:
    """All that a State is made of, in the order of submission, of grant, and of position."""

    at: float | None
    next_run_id: int
    nodes: list[Row]
    jobs: list[Row]
    runs: list[Row]
    chosen: Row  # policy, its options, placer, its options, memory
    """The memory as Policy.save gave it, in JSON, like both options."""


def job_row(job: JobState) -> Row:
    return (
        job.id,
        codec.encode_job(job.job),
        job.phase.value,
        int(job.cancelled),
        job.runs,
        job.preemptions,
        instant(job.first_started_at),
        instant(job.last_preempted_at),
        job.waiting_since,
        job.held_s,
        job.service_gpu_s,
        job.progress_s,
    )


def instant(at: float) -> float | None:
    """NULL where the core has an infinity: not yet, or never."""
    return None if at in (INFINITY, -INFINITY) else at


def rebuild(rows: Rows, memory: Any) -> State:
    """The State that these rows were made of."""
    nodes = [(codec.NODE.decode(json.loads(node)), in_service) for _, node, in_service in rows.nodes]
    state = State(Cluster([node for node, _ in nodes]), memory)
    for row in rows.jobs:
        job = _job(row)
        state.jobs[job.id] = job
    for row in rows.runs:
        run = _run(row)
        job = state.jobs[run.job_id]
        job.run = state.runs[run.id] = run
        state.ledger.take(run.id, run.allocation)
    for node, in_service in nodes:  # only now: a run may hold slots of a node that was withdrawn since
        if not in_service:
            state.ledger.withdraw(node.name)
    state.at = -INFINITY if rows.at is None else rows.at
    state.next_run_id = rows.next_run_id
    return state


def _job(row: Row) -> JobState:
    job = JobState(codec.decode_job(row[1]))
    if job.id != row[0]:
        raise StoreError(f"the row of job {row[0]} holds job {job.id}: the journal is damaged")
    job.phase = Phase(row[2])
    job.cancelled = bool(row[3])
    job.runs = row[4]
    job.preemptions = row[5]
    job.first_started_at = INFINITY if row[6] is None else row[6]
    job.last_preempted_at = -INFINITY if row[7] is None else row[7]
    job.waiting_since, job.held_s, job.service_gpu_s, job.progress_s = row[8:12]
    return job


def _run(row: Row) -> Run:
    id, job_id, allocation, granted_at, started_at, progress_s, progress_at, speed = row
    slots = tuple((node, mask) for node, mask in json.loads(allocation))
    run = Run(RunId(id), JobId(job_id), slots, granted_at, progress_s)
    run.started_at = INFINITY if started_at is None else started_at
    run.progress_at = progress_at
    run.speed = speed
    return run


def to_json(rows: Rows) -> str:
    """All rows as one text."""
    return json.dumps([rows.at, rows.next_run_id, rows.nodes, rows.jobs, rows.runs, rows.chosen])


def from_json(text: str) -> Rows:
    at, next_run_id, nodes, jobs, runs, chosen = json.loads(text)
    return Rows(at, next_run_id, _tuples(nodes), _tuples(jobs), _tuples(runs), tuple(chosen))


def _tuples(rows: Iterable[list[Any]]) -> list[Row]:
    return [tuple(row) for row in rows]
