"""A State as rows of the tables, and back. What follows from the job (gpus, priority …) is not stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.facts import Allocation, RunGranted
from tiresias.core.model import INFINITY, Cluster, JobId, Phase, RunId
from tiresias.core.state import JobState, Run, State
from tiresias.store import codec
from tiresias.store.checksums import Row as Row
from tiresias.store.checksums import real
from tiresias.store.errors import StoreError

JOB_COLUMNS = (
    "id, job, phase, cancelled, runs, preemptions, first_started_at, last_preempted_at, waiting_since,"
    " executed_s, service_gpu_s, progress_s, on_hold, deferred, deferred_until"
)
RUN_COLUMNS = "id, job, allocation, granted_at, started_at, progress_s, progress_at, speed"
ALL_RUN_COLUMNS = (  # also those that only runs have which exited; in the order of the table
    "id, job, number, allocation, granted_at, started_at, revoked_at, exited_at, progress_s, progress_at,"
    " speed, cause, exit"
)
NODE_COLUMNS = "position, node, in_service, out_slots"
JOB_DEFAULTS: Row = (0, "", None)  # of the last columns, which rows in bases of earlier versions lack
NODE_DEFAULTS: Row = ("[]",)
IN_SERVICE, SILENT = 1, 2  # bits of the column in_service
PHASES = {phase.value: phase for phase in Phase}


@dataclass(slots=True)
class Rows:
    """The rows of a State: jobs in the order of submission, runs of grant, nodes of position."""

    at: float | None
    next_run_id: int
    nodes: list[Row]
    jobs: list[Row]
    runs: list[Row]
    chosen: Row  # policy, its options, placer, its options, memory (as Policy.save returns it); in JSON
    refused: dict[int, float] = field(default_factory=dict)
    """By job, since when the placer refuses it. Only bases contain it: a replay needs it, but a manager does
    not know it after a restart.
    """


def job_row(job: JobState, text: str) -> Row:
    """A row of JOB_COLUMNS; `text` is the job as `codec.encode_job` writes it."""
    return (
        job.id,
        text,
        job.phase.value,
        int(job.cancelled),
        job.runs,
        job.preemptions,
        instant(job.first_started_at),
        instant(job.last_preempted_at),
        real(job.waiting_since),
        real(job.executed_s),
        real(job.service_gpu_s),
        real(job.progress_s),
        int(job.on_hold),
        job.deferred,
        instant(job.deferred_until),
    )


def service_value(*, in_service: bool, silent: bool) -> int:
    """Whether a node is in service, and whether it is silent, as the column in_service has it."""
    return IN_SERVICE * in_service + SILENT * silent


def instant(at: float) -> float | None:
    """The instant, or None (NULL) for an infinity, which the core uses for "not yet" and "never"."""
    return None if at in (INFINITY, -INFINITY) else real(at)


def rebuild(rows: Rows, memory: Any) -> State:
    """The State from which these rows were made."""
    nodes = [(codec.NODE.decode(json.loads(node)), is_in, out) for _, node, is_in, out in rows.nodes]
    state = State(Cluster([node for node, _, _ in nodes]), memory)
    for row in rows.jobs:
        job = _job(row)
        state.jobs[job.id] = job
    for row in rows.runs:
        run = _run(row, state)
        state.hold(state.jobs[run.job_id], run)
    for node, is_in, out in nodes:  # after the runs, which may hold slots that were withdrawn since
        if not is_in & IN_SERVICE:
            state.ledger_of(node.name).withdraw(node.name)
        if is_in & SILENT:
            state.ledger_of(node.name).silence(node.name)
        for index in json.loads(out):
            state.ledger_of(node.name).withdraw_slot(node.name, index)
    state.refused_since = {JobId(id): since for id, since in rows.refused.items()}
    state.at = -INFINITY if rows.at is None else rows.at
    state.next_run_id = rows.next_run_id
    return state


def _job(row: Row) -> JobState:
    job = JobState(codec.decode_job(row[1]))
    if job.id != row[0]:
        raise StoreError(f"the row of job {row[0]} contains job {job.id}: the journal is damaged")
    job.phase = PHASES[row[2]]
    job.cancelled = bool(row[3])
    job.runs = row[4]
    job.preemptions = row[5]
    job.first_started_at = INFINITY if row[6] is None else row[6]
    job.last_preempted_at = -INFINITY if row[7] is None else row[7]
    job.waiting_since, job.executed_s, job.service_gpu_s, job.progress_s = row[8:12]
    job.on_hold = bool(row[12]) or job.phase is Phase.HELD
    job.deferred = row[13]
    job.deferred_until = INFINITY if row[14] is None else row[14]
    return job


def slots_text(grant: RunGranted) -> str:
    """The column `allocation`: the slots, and their layer if that is not 0."""
    if grant.layer:
        return codec.dump({"slots": grant.allocation, "layer": grant.layer})
    return codec.dump(grant.allocation)


def slots_in(text: str) -> tuple[Allocation, int]:
    """The slots and the layer in the column `allocation`."""
    held, layer = json.loads(text), 0
    if isinstance(held, dict):
        held, layer = held["slots"], held["layer"]
    return tuple((node, mask) for node, mask in held), layer


def _run(row: Row, state: State) -> Run:
    id, job_id, allocation, granted_at, started_at, progress_s, progress_at, speed = row
    slots, layer = slots_in(allocation)
    run = Run(RunId(id), JobId(job_id), slots, state.pool_of(slots), granted_at, progress_s)
    run.started_at = INFINITY if started_at is None else started_at
    run.progress_at = progress_at
    run.speed = speed
    run.layer = layer
    return run


def to_json(rows: Rows) -> str:
    """All rows as the JSON text of a base."""
    refused = list(rows.refused.items())
    return json.dumps([rows.at, rows.next_run_id, rows.nodes, rows.jobs, rows.runs, rows.chosen, refused])


def from_json(text: str) -> Rows:
    """The rows of a base, also of one that an earlier version wrote."""
    at, next_run_id, nodes, jobs, runs, chosen, *later = json.loads(text)
    jobs, nodes = _filled(jobs, JOB_COLUMNS, JOB_DEFAULTS), _filled(nodes, NODE_COLUMNS, NODE_DEFAULTS)
    refused = dict(later[0]) if later else {}
    return Rows(at, next_run_id, nodes, jobs, [tuple(run) for run in runs], tuple(chosen), refused)


def refused_in(state: State) -> dict[int, float]:
    """By job, since when the placer refuses it though enough slots are free."""
    return {int(id): since for id, since in state.refused_since.items()}


def _filled(rows: Iterable[list[Any]], columns: str, defaults: Row) -> list[Row]:
    """Add the default values of columns that did not exist when the rows were written."""
    width = columns.count(",") + 1
    return [(*row, *defaults[len(defaults) - (width - len(row)) :]) for row in rows]
