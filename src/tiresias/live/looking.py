"""What the manager tells. Nothing here changes anything; what ended is read from the journal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tiresias import __version__
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.state import JobState, Run
from tiresias.live.asking import Desk
from tiresias.live.errors import Denied, Invalid, NotFound
from tiresias.live.events import event_of
from tiresias.live.losses import losses
from tiresias.live.notes import Note
from tiresias.live.reports import (
    EventReport,
    JobDetail,
    JobSummary,
    Limits,
    NodeReport,
    ProgressReport,
    RunReport,
    SlotReport,
    StatusReport,
    UsageRow,
    WhyReport,
)
from tiresias.live.submission import Caller
from tiresias.live.why import quick_reason, why
from tiresias.spec.job import IN_DETAIL
from tiresias.store import JobRecord, RunRecord

SHORT_JOB_S = 300.0
ACTIVE = 1 << 52  # cursors from here on are places in the list of active jobs, below it facts that ended jobs
HISTORY = tuple(each.name for each in fields(JobSummary) if each.name != "progress")


@dataclass(slots=True)
class LogFile:
    """Where a worker's output is. `is_over`: nothing will be appended any more."""

    path: Path
    run: int
    worker: int
    is_over: bool
    next_run: int | None
    job_over: bool


class Window(Desk):
    """Answers questions."""

    def __init__(self, *args: Any, **named: Any):
        super().__init__(*args, **named)
        self._began_at = self.now()

    # --- jobs ------------------------------------------------------------------------------------------

    def summaries(
        self,
        caller: Caller,
        *,
        ended: bool = False,
        user: str | None = None,
        phases: Collection[str] = (),
        limit: int = 1000,
        cursor: int | None = None,
    ) -> tuple[list[JobSummary], int | None]:
        """A page of active jobs (running, then in rank order, then the others), then of ended ones.

        The order of active jobs changes while they start and end: who pages through many may miss some.
        """
        found: list[JobSummary] = []
        if cursor is None or cursor >= ACTIVE:
            begin = 0 if cursor is None else cursor - ACTIVE
            active = [
                job
                for job in self._in_order()
                if (user is None or job.user == user) and (not phases or job.phase.value in phases)
            ]
            found = [self._active(job, caller) for job in active[begin : begin + limit]]
            if begin + limit < len(active):
                return found, ACTIVE + begin + limit
            if not ended:
                return found, None
            if len(found) == limit:
                return found, ACTIVE - 1
            cursor = None
        records, following = self.store.ended(limit - len(found), cursor)
        if cursor is None or cursor == ACTIVE - 1:  # the first of these pages has a few more for a moment
            records = [*self.endings(), *records]
        found += [
            self._ended(record, caller)
            for record in records
            if (user is None or record.job.user == user) and (not phases or record.phase.value in phases)
        ]
        return found, following

    def summary(self, caller: Caller, id: JobId) -> JobSummary:
        job = self.state.jobs.get(id)
        if job is not None:
            return self._active(job, caller)
        return self._ended(self._recorded(id), caller)

    def _in_order(self) -> list[JobState]:
        jobs = self.state.jobs
        running = [job for job in jobs.values() if job.run is not None]
        ranked = [job for job in self.controller.target if job.run is None]
        seen = {job.id for job in (*running, *ranked)}
        return [*running, *ranked, *(job for job in jobs.values() if job.id not in seen)]

    def _active(self, job: JobState, caller: Caller) -> JobSummary:
        now = self.now()
        told = None
        if job.run is not None:
            told = self.progress.of(job.run.id, self.places.told(job.id, job.runs), now)
        note = self.notes[job.id]
        if told is None and note.progress is not None:
            told = ProgressReport(**note.progress)
        if told is not None and not caller.may_touch(job.user):
            told.metrics = {}
        return JobSummary(
            job.id,
            job.job.name,
            job.user,
            job.phase.value,
            quick_reason(job, self.state.ledger.gpus),
            job.gpus,
            job.runs,
            job.preemptions,
            job.service_at(now),
            job.submitted_at,
            None if job.first_started_at == INFINITY else job.first_started_at,
            None,
            None,
            told,
            job.tenant,
            job.job.priority.value,
            self._queue(job),
            _since(job),
        )

    def _queue(self, job: JobState) -> int | None:
        policy = self.controller.policy
        if not hasattr(policy.options, "queues") or not job.runs:
            return 1 if hasattr(policy.options, "queues") else None
        if job.key is not None:
            return int(job.key[1]) + 1
        return int(policy.rank(job, self.state.memory, self.now())[0]) + 1

    def _ended(self, record: JobRecord, caller: Caller) -> JobSummary:
        kept = record.record or {}
        told = None if kept.get("progress") is None else ProgressReport(**kept["progress"])
        if told is not None and not caller.may_touch(record.job.user):
            told.metrics = {}
        return JobSummary(
            record.id,
            record.job.name,
            record.job.user,
            record.phase.value,
            kept.get("reason", ""),
            record.job.demand.gpus,
            record.runs,
            record.preemptions,
            record.service_gpu_s,
            record.job.submitted_at,
            record.first_started_at,
            record.ended_at,
            kept.get("exit_code"),
            told,
            record.job.tenant,
            record.job.priority.value,
            since_at=record.ended_at,
        )

    def _recorded(self, id: JobId) -> JobRecord:
        record = self.record(id)
        if record is None:
            raise NotFound(f"there is no job {id}; `tir ls --all` lists all of them")
        return record

    def find(self, caller: Caller, text: str) -> JobId:
        """A number, or the name of a job: one of the caller's own, an active one, the latest first."""
        if text.isdecimal() and len(text) < 16:
            return JobId(int(text))
        own = (id for id in self.notes.named(text) if caller.may_touch(self.notes[id].light.user))
        found = next(own, None)
        if found is None and not caller.is_admin:
            found = self._ended_of_name(text, caller.user)
        if found is None:
            found = next(self.notes.named(text), None) or self._ended_of_name(text)
        if found is None:
            raise NotFound(f"there is no job named {text!r}; `tir ls --all` lists all of them")
        return found

    def _ended_of_name(self, name: str, user: str | None = None) -> JobId | None:
        for record in self.endings():
            if record.job.name == name and user in (None, record.job.user):
                return record.id
        return self.store.latest_of_name(name, user)

    def _readable(self, caller: Caller, id: JobId) -> JobState | None:
        """The active job, if any; refuses what is somebody else's."""
        job = self.state.jobs.get(id)
        owner = job.user if job is not None else self._recorded(id).job.user
        if not caller.may_touch(owner):
            raise Denied(f"job {id} belongs to {owner}, and you are {caller.user}")
        return job

    def why(self, caller: Caller, id: JobId) -> WhyReport:
        """Anybody may ask, of any job: it says nothing that `ls` does not."""
        job = self.state.jobs.get(id)
        if job is not None:
            return why(self, job)
        record = self._recorded(id)
        kept = record.record or {}
        if not caller.may_touch(record.job.user):
            return WhyReport(kept.get("reason", ""), f"it has {record.phase}", "")
        text = " ".join(filter(None, (kept.get("sentence", ""), kept.get("evidence", ""))))
        step = f"`tir logs {id}`" if record.phase is Phase.FAILED and record.runs else ""
        return WhyReport(kept.get("reason", ""), text, step)

    def detail(self, caller: Caller, id: JobId) -> JobDetail:
        self._readable(caller, id)
        body = None if id in self.notes else self._batch.notes.get(id) or self.store.note(id)
        note = self.notes.get(id) or (None if body is None else Note.from_json(body))
        if note is None:
            raise NotFound(f"job {id} ended so long ago that only its line in `tir ls --all` is left")
        light = note.light
        asked = self._batch.submissions.get(id) or self.store.submission(id) or {}
        options = {name: getattr(light, name) for name in IN_DETAIL}
        options["checkpoint_dir"] = light.checkpoint_dir or str(self.places.checkpoint(id))
        return JobDetail(
            **options,
            summary=self.summary(caller, id),
            why=self.why(caller, id),
            env_names=sorted(asked.get("env", {})),
            retries_used=note.retries_used,
            array=light.array,
            array_index=light.array_index,
            runs=self.runs(caller, id),
        )

    def runs(self, caller: Caller, id: JobId) -> list[RunReport]:
        self._readable(caller, id)
        return [self._run(record) for record in self.store.runs(id)]

    def _run(self, record: RunRecord) -> RunReport:
        exit = record.exit or {}
        return RunReport(
            record.id,
            record.number,
            list(self.state.ledger.slot_names(record.allocation)),
            record.granted_at,
            record.started_at,
            record.revoked_at,
            record.exited_at,
            None if record.cause is None else record.cause.value,
            exit.get("code"),
            exit.get("sentence", ""),
            exit.get("evidence", ""),
            len(exit.get("workers", ())) or 1,
        )

    def log_file(self, caller: Caller, id: JobId, run: int | None = None, worker: int = 0) -> LogFile:
        job = self._readable(caller, id)
        runs = job.runs if job is not None else self._recorded(id).runs
        if not runs:
            reason = self.why(caller, id)
            raise NotFound(f"job {id} has not run, so it has no output: {reason.text}")
        number = runs if run is None else run
        if not 1 <= number <= runs:
            raise NotFound(f"job {id} has no run {number}; it has runs 1 to {runs}")
        path = self.places.run(id, number) / f"worker-{worker}.log"
        is_over = number < runs or job is None or job.run is None
        if is_over and not path.exists() and worker:
            raise NotFound(f"run {number} of job {id} had no worker {worker}")
        return LogFile(path, number, worker, is_over, number + 1 if number < runs else None, job is None)

    # --- the cluster -----------------------------------------------------------------------------------

    def nodes(self) -> list[NodeReport]:
        ledger = self.state.ledger
        holders: dict[str, Run] = {}
        for run in self.state.runs.values():
            holders |= dict.fromkeys(ledger.slot_names(run.allocation), run)
        found = []
        for position, node in enumerate(ledger.nodes):
            names = [f"{node.name}:{index}" for index in range(node.gpus)]
            is_in = ledger.in_service[position]
            slots = [self._slot(name, holders.get(name), is_drained=not is_in) for name in names]
            reason = self.out_of_service.get(node.name, "")
            free = ledger.free_counts[position]
            groups = [list(group) for group in node.sockets]
            found.append(NodeReport(node.name, node.gpus, free, not is_in, reason, slots, groups))
        return found

    def _slot(self, name: str, run: Run | None, *, is_drained: bool) -> SlotReport:
        reason = self.out_of_service.get(name, "")
        if run is not None:
            is_saving = self.state.jobs[run.job_id].phase is Phase.STOPPING
            state = "saving" if is_saving else "busy"
        elif reason:
            state = "foreign" if reason.startswith("used by others") else "out"
        else:
            state = "drained" if is_drained else "free"
        gpu = self.machine.gpus.get(name)
        job_id, run_id = (None, None) if run is None else (run.job_id, run.id)
        kind, memory = ("", 0) if gpu is None else (gpu.name, gpu.memory_bytes)
        return SlotReport(name, state, job_id, run_id, kind, memory, reason)

    def status(self) -> StatusReport:
        active = Counter(job.phase for job in self.state.jobs.values())
        ended = Counter(self.store.ended_counts())
        ended.update(record.phase.value for record in self.endings())
        counts = {**ended, **{phase.value: count for phase, count in active.items()}}
        return StatusReport(
            os.getpid(),
            self.now() - self._began_at,
            __version__,
            self.chosen.policy,
            dict(self.chosen.options),
            self.chosen.placer,
            self.state.ledger.gpus,
            self.state.ledger.free,
            counts,
            not self.problem,
            self.problem,
        )

    def policy(self) -> dict[str, Any]:
        """The policy in use, its options, and what it has learned that people ask for."""
        memory = self.state.memory
        ladder = getattr(memory, "ladder", None)
        return {
            "name": self.chosen.policy,
            "options": dict(self.chosen.options),
            "placer": self.chosen.placer,
            "placer_options": dict(self.placer_given),
            "placer_learned": {
                name: value
                for name, value in self.chosen.placer_options.items()
                if name not in self.placer_given
            },
            "queues_gpu_s": None if ladder is None else list(ladder),
        }

    def limits(self, caller: Caller) -> dict[str, Limits]:
        if caller.is_admin:
            return dict(self.gates.limits)
        return {caller.user: self.gates.limits_of(caller.user)}

    def usage(self, caller: Caller, by: str, since_s: float | None = None) -> list[UsageRow]:
        """Who got what; `since_s` seconds back from now, else since ever."""
        if by not in ("user", "tenant"):
            raise Invalid(f"usage by {by!r}: give user or tenant")
        now = self.now()
        since = 0.0 if since_s is None else now - since_s
        rows = {
            who: UsageRow(who, jobs, 0, 0, service, wait, short, again)
            for who, jobs, service, wait, short, again in self.store.usage(by, since, SHORT_JOB_S)
        }
        for job in self.state.jobs.values():
            who = job.user if by == "user" else job.tenant
            row = rows.setdefault(who, UsageRow(who, 0, 0, 0, 0.0, None, 0, 0))
            row.jobs += 1
            row.active_jobs += 1
            row.running_gpus += job.gpus if job.run is not None else 0
            row.service_gpu_s += job.service_at(now)
        return sorted(rows.values(), key=lambda row: (-row.service_gpu_s, row.who))

    def events(self, caller: Caller, since: int, limit: int = 1000) -> list[EventReport]:
        return [event_of(stored) for stored in self.store.facts(since, limit)]

    def story(self, caller: Caller, id: JobId) -> list[EventReport]:
        self._readable(caller, id)
        return [event_of(stored) for stored in self.store.story(id)]

    def history(
        self, caller: Caller, cursor: int | None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Ended jobs, the latest first, with what a trace needs.

        `duration_s` is what it would have held its slots for had it never been interrupted (losses.py).
        """
        records, following = self.store.ended(limit, cursor)
        runs = self.store.spans(record.id for record in records)
        rows = []
        for record in records:
            ended = self._ended(record, caller)
            row = {name: getattr(ended, name) for name in HISTORY}
            lost = losses(runs.get(record.id, []))
            row |= {
                "model": record.job.model,
                "group": record.job.group,
                "preemptible": record.job.preemptible,
                "ready_at": (record.record or {}).get("ready_at") or record.job.submitted_at,
                "executed_s": record.held_s,
                "duration_s": max(0.0, record.held_s - lost.lost_s),
                "interruptions": lost.interruptions,
                "preemption_cost_s": lost.lost_s / lost.interruptions if lost.interruptions else None,
                "startup_s": lost.startup_s,
            }
            if not caller.may_touch(record.job.user):
                row["name"] = ""
            rows.append(row)
        return rows, following


def _since(job: JobState) -> float | None:
    """Since when an active job is in its phase; when a run was told to stop is not in the State."""
    if job.run is None:
        return job.waiting_since
    if job.phase is Phase.STOPPING:
        return None
    return job.run.granted_at if job.run.started_at == INFINITY else job.run.started_at
