"""What the facts of a batch change in the tables, computed from the facts and the State, before any SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from tiresias.core import facts as f
from tiresias.core.model import Job, JobId, RunId
from tiresias.core.state import JobState, State
from tiresias.store import codec
from tiresias.store.batch import Batch
from tiresias.store.checksums import Row, real, with_crc
from tiresias.store.errors import StoreError
from tiresias.store.rows import instant, job_row, slots_text


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
class Known:
    """What the writer remembers of the tables, so that it can write whole rows with their checksums."""

    counters: Counters = field(default_factory=Counters)
    submitted: dict[JobId, int] = field(default_factory=dict)  # active job: the number of its JobSubmitted
    runs: dict[RunId, Row] = field(default_factory=dict)  # open run: its row, in the order of ALL_RUN_COLUMNS
    run_of: dict[JobId, RunId] = field(default_factory=dict)  # job: its open run

    texts: dict[JobId, tuple[Job, str]] = field(default_factory=dict)  # active job: as it was encoded last

    def text_of(self, job: Job) -> str:
        """The job as it is stored. A job is a value that seldom changes, and its row is written often."""
        last = self.texts.get(job.id)
        if last is None or last[0] is not job:
            last = self.texts[job.id] = (job, codec.encode_job(job))
        return last[1]

    def add_run(self, row: Row) -> None:
        self.runs[RunId(row[0])] = row
        self.run_of[JobId(row[1])] = RunId(row[0])

    def remove_run(self, id: RunId) -> None:
        row = self.runs.pop(id, None)
        if row is not None and self.run_of.get(row[1]) == id:
            del self.run_of[row[1]]


@dataclass(slots=True)
class Changes:
    """What to write. The columns of the rows are in the order of the statements in tables.py."""

    known: Known  # as of the last commit
    counters: Counters
    facts: list[Row] = field(default_factory=list)
    kinds: set[type] = field(default_factory=set)
    touched: dict[JobId, int] = field(default_factory=dict)  # job: the number of the last fact about it
    submitted: dict[JobId, int] = field(default_factory=dict)  # job: the number of its JobSubmitted
    old_ids: list[JobId] = field(default_factory=list)  # of those, ids that are not beyond all earlier ones
    granted: dict[RunId, f.RunGranted] = field(default_factory=dict)
    changed: dict[RunId, None] = field(default_factory=dict)  # runs that facts are about, in order
    started: dict[RunId, float] = field(default_factory=dict)
    revoked: dict[RunId, float] = field(default_factory=dict)
    ended: dict[RunId, float] = field(default_factory=dict)  # run: when it ended, before its exit was known
    exited: dict[RunId, f.RunExited] = field(default_factory=dict)
    run_rows: list[Row] = field(default_factory=list)  # of `changed`, in that order, without checksums
    are_nodes_changed: bool = False

    def new_job_rows(self, state: State) -> list[Row]:
        """Rows of `jobs` for active jobs that were submitted."""
        return [self._job_row(id, seq, state) for id, seq in self.submitted.items() if id in state.jobs]

    def changed_job_rows(self, state: State) -> list[Row]:
        """What UPDATE_JOB needs for active jobs that other facts are about."""
        known, jobs = self.known.submitted, state.jobs
        ids = [id for id in self.touched if id in jobs and id not in self.submitted]
        return [(*self._job_row(id, known[id], state)[2:], id) for id in ids]

    def _job_row(self, id: JobId, submitted_seq: int, state: State) -> Row:
        job = state.jobs[id]
        return with_crc("jobs", (id, submitted_seq, *job_row(job, self.known.text_of(job.job))[1:]))

    def history_rows(self, batch: Batch) -> list[Row]:
        return [
            with_crc("history", self._history_row(job, _dump_if(batch.endings, id)))
            for id, job in batch.ended.items()
        ]

    def _history_row(self, state: JobState, ending: str | None) -> Row:
        job = state.job
        return (
            self.touched[job.id],
            job.id,
            self.known.text_of(job),
            _text(job.user),
            _text(job.tenant),
            _text(job.name),
            state.gpus,
            state.phase.value,
            real(state.submitted_at),
            instant(state.first_started_at),
            real(state.ended_at),
            state.runs,
            state.preemptions,
            real(state.executed_s),
            real(state.service_gpu_s),
            real(state.progress_s),
            ending,
        )

    def new_run_rows(self) -> list[Row]:
        return [with_crc("runs", row) for row in self.run_rows if row[0] in self.granted]

    def changed_run_rows(self) -> list[Row]:
        """What UPDATE_RUN needs."""
        rows = [row for row in self.run_rows if row[0] not in self.granted]
        return [(*with_crc("runs", row)[5:], row[0]) for row in rows]

    def remember(self, batch: Batch) -> None:
        """Everything was committed: bring what is known up to date."""
        known = self.known
        known.counters = self.counters
        known.submitted.update(self.submitted)
        for id in batch.ended:
            known.submitted.pop(id, None)
            known.texts.pop(id, None)
        for row in self.run_rows:
            if row[0] in self.exited:
                known.remove_run(row[0])
            else:
                known.add_run(row)

    # --- runs ------------------------------------------------------------------------------------------

    def owner_of(self, run_id: RunId) -> JobId | None:
        """The job of an open run."""
        if run_id in self.exited:
            return None
        if (grant := self.granted.get(run_id)) is not None:
            return grant.job_id
        row = self.known.runs.get(run_id)
        return None if row is None else JobId(row[1])

    def open_run_of(self, job_id: JobId) -> RunId | None:
        for id, grant in self.granted.items():
            if grant.job_id == job_id and id not in self.exited:
                return id
        run_id = self.known.run_of.get(job_id)
        return None if run_id in self.exited else run_id

    def add_run_rows(self, state: State, batch: Batch) -> None:
        granted = self._granted_rows(state, batch.ended) if self.granted else {}
        for id in self.changed:
            before = granted.get(id) or self.known.runs[id]
            self.run_rows.append(self._run_row(id, before, state, batch.exits))

    def _granted_rows(self, state: State, ended: Mapping[JobId, JobState]) -> dict[RunId, Row]:
        """Rows of new runs. The runs of a job are numbered in the order of their grants."""
        left: dict[JobId, int] = {}
        for grant in self.granted.values():
            left[grant.job_id] = left.get(grant.job_id, 0) + 1
        rows: dict[RunId, Row] = {}
        for id, grant in self.granted.items():
            job = state.jobs.get(grant.job_id) or ended[grant.job_id]
            left[grant.job_id] -= 1
            number, slots = job.runs - left[grant.job_id], slots_text(grant)
            rows[id] = (id, grant.job_id, number, slots, real(grant.at), None, None)
        return rows

    def _run_row(self, id: RunId, before: Row, state: State, exit_records: Mapping[RunId, Any]) -> Row:
        """A run as it is now, in the order of ALL_RUN_COLUMNS."""
        started_at, revoked_at = before[5:7]
        if revoked_at is None and id in self.revoked:
            revoked_at = real(self.revoked[id])
        exited = self.exited.get(id)
        if exited is None:
            run = state.runs[id]
            progress = real(run.progress_s), real(run.progress_at), real(run.speed)
            return (*before[:5], instant(run.started_at), revoked_at, None, *progress, None, None)
        if id in self.started:
            started_at = real(self.started[id])
        at, record = real(self.ended.get(id, exited.at)), _dump_if(exit_records, id)
        progress = real(exited.progress_s), at, 0.0
        return (*before[:5], started_at, revoked_at, at, *progress, exited.cause.value, record)


def changes_of(batch: Batch, state: State, known: Known) -> Changes:
    """What the batch changes, numbered on from what is known; StoreError if facts contradict the State."""
    changes = Changes(known, replace(known.counters, commits=known.counters.commits + 1))
    for outside, decisions in batch.steps:
        changes.counters.last_step += 1
        for decided, facts in ((0, outside), (1, decisions)):
            for fact in facts:
                _add(changes, fact, decided)
    for id in changes.touched:
        if id not in state.jobs and id not in batch.ended:
            raise StoreError(
                f"job {id} is in the facts, but neither active nor ended: add its Step to the batch"
            )
    if early := sorted(changes.ended.keys() - changes.exited.keys()):
        raise StoreError(f"run {early[0]} has a RunEnded but no RunExited: both belong in one step")
    if unknown := batch.exits.keys() - changes.exited.keys():
        raise StoreError(f"exit records without a RunExited in this batch: runs {sorted(unknown)}")
    for id in batch.ended:
        if id not in changes.touched:
            raise StoreError(f"job {id} is in batch.ended, but no fact of this batch is about it")
    changes.add_run_rows(state, batch)
    return changes


def _add(changes: Changes, fact: f.Fact, decided: int) -> None:
    """Number one fact and add what it changes."""
    kind, counters = type(fact), changes.counters
    counters.last_seq += 1
    changes.kinds.add(kind)
    if kind in ABOUT_NODES:
        changes.are_nodes_changed = True
    job_id = _about(changes, fact)
    name, version, body = codec.encode_fact(fact)
    row = (counters.last_seq, counters.last_step, decided, real(fact.at), name, version, job_id, body)
    changes.facts.append(with_crc("facts", row))
    if job_id is None:
        return
    changes.touched[job_id] = counters.last_seq
    if isinstance(fact, f.JobSubmitted):
        changes.submitted[job_id] = counters.last_seq
        if job_id < counters.next_job_id:
            changes.old_ids.append(job_id)
        counters.next_job_id = max(counters.next_job_id, job_id + 1)
    elif isinstance(fact, f.RunStarted):
        changes.started[fact.run_id] = fact.at
    elif isinstance(fact, f.RunRevoked):
        changes.revoked[fact.run_id] = fact.at
    elif isinstance(fact, f.RunEnded):
        changes.ended[fact.run_id] = fact.ended_at
    elif isinstance(fact, f.RunExited):
        changes.exited[fact.run_id] = fact
    elif isinstance(fact, f.JobCancelled | f.JobHeld | f.JobRequeued):
        run_id = changes.open_run_of(job_id)
        if run_id is not None:
            changes.revoked.setdefault(run_id, fact.at)
            changes.changed[run_id] = None
    elif isinstance(fact, f.WorkLost) and (run_id := changes.open_run_of(job_id)) is not None:
        changes.changed[run_id] = None  # its progress is that of the job, which begins anew


def _about(changes: Changes, fact: f.Fact) -> JobId | None:
    """The job that a fact is about, if any."""
    subject = SUBJECT.get(type(fact), "")
    if isinstance(fact, f.RunGranted):
        changes.granted[fact.run_id] = fact
        changes.changed[fact.run_id] = None
    if subject in ("", "job_id"):
        return getattr(fact, "job_id", None)
    if subject == "job":
        return JobId(getattr(fact, subject).id)
    run_id: RunId = getattr(fact, subject)
    owner = changes.owner_of(run_id)
    if owner is None:
        raise StoreError(
            f"{type(fact).__name__} of run {run_id}: that run was never granted, or already has its one exit"
            f" record; not stored: {fact!r}"
        )
    changes.changed[run_id] = None
    return owner


def _text(text: str) -> str:
    """Replace surrogates, which SQLite cannot store, by question marks. The JSON of the job keeps them."""
    return text.encode("utf-8", "replace").decode()


def _dump_if(values: Mapping[Any, Any], id: int) -> str | None:
    return codec.dump(values[id]) if id in values else None
