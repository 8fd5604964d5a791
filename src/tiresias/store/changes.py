"""What the facts of a batch change in the tables, computed from the facts and the State, before any SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from tiresias.core import facts as f
from tiresias.core.model import JobId, RunId
from tiresias.core.state import JobState, State
from tiresias.store import codec
from tiresias.store.batch import Batch
from tiresias.store.errors import StoreError
from tiresias.store.rows import Row, instant, job_row


def _subject(kind: type) -> str:
    """The field that identifies the job which a fact of this kind is about."""
    names = {field.name for field in fields(kind)}
    return next((name for name in ("job_id", "job", "run_id") if name in names), "")


SUBJECT = {kind: _subject(kind) for kind in get_args(f.Fact)}
ABOUT_NODES = frozenset(kind for kind in SUBJECT if "node" in {field.name for field in fields(kind)})


@dataclass(slots=True)
class Counters:
    """The numbers that were used last."""

    last_seq: int = 0
    last_step: int = 0
    next_job_id: int = 1
    commits: int = 0


@dataclass(slots=True)
class Changes:
    """What to write. The columns of the rows are in the order of the statements in tables.py."""

    counters: Counters
    facts: list[Row] = field(default_factory=list)
    kinds: set[type] = field(default_factory=set)
    touched: dict[JobId, int] = field(default_factory=dict)  # job: the number of the last fact about it
    submitted: dict[JobId, int] = field(default_factory=dict)  # job: the number of its JobSubmitted
    granted: dict[RunId, f.RunGranted] = field(default_factory=dict)
    changed: dict[RunId, None] = field(default_factory=dict)  # runs that facts are about, in order
    started: dict[RunId, float] = field(default_factory=dict)
    revoked: dict[RunId, float] = field(default_factory=dict)
    ended: dict[RunId, float] = field(default_factory=dict)  # run: when it ended, before its exit was known
    exited: dict[RunId, f.RunExited] = field(default_factory=dict)
    are_nodes_changed: bool = False

    def job_rows(self, state: State) -> list[Row]:
        """Rows of `jobs` for active jobs that facts are about: `submitted_seq`, then JOB_COLUMNS."""
        jobs = state.jobs
        return [(self.submitted.get(id, 0), *job_row(jobs[id])) for id in self.touched if id in jobs]

    def history_rows(self, batch: Batch) -> list[Row]:
        return [
            _history_row(self.touched[id], job, _dump_if(batch.endings, id))
            for id, job in batch.ended.items()
        ]

    def granted_rows(self, state: State, ended: Mapping[JobId, JobState]) -> list[Row]:
        """Rows of `runs` for new runs. The runs of a job are numbered in the order of their grants."""
        left: dict[JobId, int] = {}
        for grant in self.granted.values():
            left[grant.job_id] = left.get(grant.job_id, 0) + 1
        rows = []
        for run_id, grant in self.granted.items():
            job = state.jobs.get(grant.job_id) or ended[grant.job_id]
            left[grant.job_id] -= 1
            number = job.runs - left[grant.job_id]
            rows.append((run_id, grant.job_id, number, codec.dump(grant.allocation), grant.at, grant.at))
        return rows

    def open_run_rows(self, state: State) -> list[Row]:
        """The progress of runs that have changed and have not exited."""
        return [
            (instant(run.started_at), run.progress_s, run.progress_at, run.speed, id)
            for id in self.changed
            if (run := state.runs.get(id)) is not None
        ]

    def exited_rows(self, exit_records: Mapping[RunId, Any]) -> list[Row]:
        exits = [(id, self.ended.get(id, fact.at), fact) for id, fact in self.exited.items()]
        return [
            (at, fact.cause.value, fact.progress_s, at, _dump_if(exit_records, id), id)
            for id, at, fact in exits
        ]


def changes_of(batch: Batch, state: State, open_runs: Mapping[RunId, JobId], counters: Counters) -> Changes:
    """What the batch changes, numbered on from the counters; StoreError if facts contradict the State."""
    changes = Changes(replace(counters, commits=counters.commits + 1))
    owners = dict(open_runs)
    for outside, decisions in batch.steps:
        changes.counters.last_step += 1
        for decided, facts in ((0, outside), (1, decisions)):
            for fact in facts:
                _add(changes, fact, decided, owners)
    for id in changes.touched:
        if id not in state.jobs and id not in batch.ended:
            raise StoreError(
                f"job {id} is in the facts, but neither active nor ended: add its Step to the batch"
            )
    if early := sorted(changes.ended.keys() - changes.exited.keys()):
        raise StoreError(f"run {early[0]} has a RunEnded but no RunExited: both belong in one step")
    for id in batch.ended:
        if id not in changes.touched:
            raise StoreError(f"job {id} is in batch.ended, but no fact of this batch is about it")
    return changes


def _add(changes: Changes, fact: f.Fact, decided: int, owners: dict[RunId, JobId]) -> None:
    """Number one fact and add what it changes. `owners` maps open runs to jobs and is kept up to date."""
    kind, counters = type(fact), changes.counters
    counters.last_seq += 1
    changes.kinds.add(kind)
    if kind in ABOUT_NODES:
        changes.are_nodes_changed = True
    job_id = _about(changes, fact, owners)
    name, version, body = codec.encode_fact(fact)
    row = (counters.last_seq, counters.last_step, decided, fact.at, name, version, job_id, body)
    changes.facts.append(row)
    if job_id is None:
        return
    changes.touched[job_id] = counters.last_seq
    if isinstance(fact, f.JobSubmitted):
        changes.submitted[job_id] = counters.last_seq
        counters.next_job_id = max(counters.next_job_id, job_id + 1)
    elif isinstance(fact, f.RunStarted):
        changes.started[fact.run_id] = fact.at
    elif isinstance(fact, f.RunRevoked):
        changes.revoked[fact.run_id] = fact.at
    elif isinstance(fact, f.RunEnded):
        changes.ended[fact.run_id] = fact.ended_at
    elif isinstance(fact, f.RunExited):
        changes.exited[fact.run_id] = fact
        del owners[fact.run_id]
    elif isinstance(fact, f.JobCancelled | f.JobHeld | f.JobRequeued):
        run_id = next((run_id for run_id, owner in owners.items() if owner == job_id), None)
        if run_id is not None:
            changes.revoked.setdefault(run_id, fact.at)
            changes.changed[run_id] = None


def _about(changes: Changes, fact: f.Fact, owners: dict[RunId, JobId]) -> JobId | None:
    """The job that a fact is about, if any."""
    subject = SUBJECT.get(type(fact), "")
    if isinstance(fact, f.RunGranted):
        changes.granted[fact.run_id] = fact
        changes.changed[fact.run_id] = None
        owners[fact.run_id] = fact.job_id
    if subject in ("", "job_id"):
        return getattr(fact, "job_id", None)
    if subject == "job":
        return JobId(getattr(fact, subject).id)
    run_id: RunId = getattr(fact, subject)
    if run_id not in owners:
        raise StoreError(
            f"{type(fact).__name__} of run {run_id}: that run was never granted, or already has its one exit"
            f" record; not stored: {fact!r}"
        )
    changes.changed[run_id] = None
    return owners[run_id]


def _history_row(ended_seq: int, state: JobState, ending: str | None) -> Row:
    job = state.job
    return (
        ended_seq,
        job.id,
        codec.encode_job(job),
        _text(job.user),
        _text(job.tenant),
        _text(job.name),
        state.gpus,
        state.phase.value,
        state.submitted_at,
        instant(state.first_started_at),
        state.ended_at,
        state.runs,
        state.preemptions,
        state.executed_s,
        state.service_gpu_s,
        state.progress_s,
        ending,
    )


def _text(text: str) -> str:
    """Replace surrogates, which SQLite cannot store, by question marks. The JSON of the job keeps them."""
    return text.encode("utf-8", "replace").decode()


def _dump_if(values: Mapping[Any, Any], id: int) -> str | None:
    return codec.dump(values[id]) if id in values else None
