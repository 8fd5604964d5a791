"""What users and administrators may read from the manager. A query changes nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiresias import __version__
from tiresias.core.facts import Fact, RunExited
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.core.reasons import ReasonCode, text_of
from tiresias.core.state import JobState, State
from tiresias.live import fallback
from tiresias.live.admission import Admission
from tiresias.live.answers import (
    EventInfo,
    Explanation,
    JobDetail,
    JobSummary,
    Limits,
    ManagerStatus,
    ProgressInfo,
    RunInfo,
    SlowdownRow,
    UsageRow,
)
from tiresias.live.ended import loss_of, range_of, summary_of, trace_row
from tiresias.live.errors import Conflict, Denied, Invalid, NotFound
from tiresias.live.events import event_of
from tiresias.live.fallback import FAILURE
from tiresias.live.gpu_health import GpuHealth
from tiresias.live.home_paths import HomePaths
from tiresias.live.host_faults import HostFaults
from tiresias.live.journal import Journal
from tiresias.live.listing import EVERYTHING, IN_ORDER, SLICE, Filter, Page, ordered
from tiresias.live.machine import Machine
from tiresias.live.node_list import NodeList
from tiresias.live.nodes import Nodes
from tiresias.live.outlooks import Outlooks
from tiresias.live.placer_feedback import PlacerFeedback
from tiresias.live.progress_reader import ProgressReader
from tiresias.live.prune import PRUNED
from tiresias.live.queue_order import QueueOrder
from tiresias.live.references import References
from tiresias.live.stops import add_stop
from tiresias.live.submission import Caller
from tiresias.live.unsaved_work import protection_of
from tiresias.live.why import why
from tiresias.profiles.stored import as_dict
from tiresias.spec.job import IN_DETAIL
from tiresias.store import StoredFact, StoredJob, StoredRun

SHORT_JOB_S = 300.0
NO_RUN = RunId(0)
NOBODY = Caller("", is_admin=False)  # sees of each job what everybody may see
ACTIVE = (
    1 << 52
)  # cursors from here on count active jobs; below it they are the numbers of facts that ended jobs
HOST_FAULT = ReasonCode.HOST_FAULT.value


@dataclass(slots=True)
class LogFile:
    """Where the output of a worker is. If `is_over`, nothing will be appended to it."""

    path: Path
    run: int
    worker: int
    is_over: bool
    next_run: int | None
    job_over: bool


class Queries:
    """Answers questions. What is active is read from the State, what has ended from the journal."""

    def __init__(
        self,
        journal: Journal,
        admission: Admission,
        gpu_health: GpuHealth,
        nodes: Nodes,
        host_faults: HostFaults,
        feedback: PlacerFeedback,
        progress: ProgressReader,
        machine: Machine,
        paths: HomePaths,
    ):
        self._journal, self._admission, self._gpu_health = journal, admission, gpu_health
        self._feedback, self._progress, self._machine, self._paths = feedback, progress, machine, paths
        self._host_faults, self._nodes = host_faults, nodes
        self._began_at = journal.now()
        self.references = References(journal)
        self.order = QueueOrder(journal, self._without_metrics)
        self.outlooks = Outlooks(journal, progress, paths)
        self.nodes = NodeList(journal, gpu_health, nodes, machine)

    @property
    def _state(self) -> State:
        return self._journal.state

    # --- jobs ------------------------------------------------------------------------------------------

    def summaries(self, caller: Caller, **asked: Any) -> tuple[list[JobSummary], int | None, int]:
        """A page of jobs at once, as `page` is asked for it: the jobs, the next cursor, and the total."""
        page = self.page(caller, **asked)
        return [each for some in page.slices for each in some], page.following, page.total

    def page(
        self,
        caller: Caller,
        *,
        ended: bool = False,
        wanted: Filter = EVERYTHING,
        sort: str = IN_ORDER,
        refs: Collection[str] = (),
        limit: int = 1000,
        offset: int = 0,
        cursor: int | None = None,
    ) -> Page:
        """A page of active jobs in the order of `sort`, then of ended ones, the latest first.

        The order of active jobs changes while they start and end: a reader of many pages may miss some. With
        `refs`, only the jobs that these mean, on one page. `offset` leaves out so many active jobs.
        """
        page = Page()
        if refs:
            meant = {id for ref in refs for id in self.references.several(caller, ref, active=not ended)}
            found = self._only(caller, meant, wanted)
            page.slices, page.total = iter([found]), len(found)
        else:
            page.slices = self._slices(page, caller, ended, wanted, sort, limit, offset, cursor)
        return page

    def _slices(
        self,
        page: Page,
        caller: Caller,
        ended: bool,
        wanted: Filter,
        sort: str,
        limit: int,
        offset: int,
        cursor: int | None,
    ) -> Iterator[list[JobSummary]]:
        """Which active jobs are on the page, and their order, is found at once; their rows are made by and
        by. Jobs that end meanwhile are left out."""
        left = limit
        if cursor is None or cursor >= ACTIVE:
            begin = offset if cursor is None else cursor - ACTIVE
            active = ordered(self._in_order(), wanted, sort, self._journal.now())
            page.total = len(active)
            on_page = active[begin : begin + limit]
            left -= len(on_page)
            if begin + limit < page.total:
                page.following = ACTIVE + begin + limit
            elif ended and not left:
                page.following = ACTIVE - 1
            for first in range(0, len(on_page), SLICE):
                some = [job for job in on_page[first : first + SLICE] if job.id in self._state.jobs]
                codes = self._codes([job.id for job in some])
                yield [self._active(job, code, caller) for job, code in zip(some, codes, strict=True)]
            if page.following is not None or not ended:
                return
            cursor = None
        if cursor is None or cursor == ACTIVE - 1:  # ended, and not yet committed
            uncommitted = filter(_wanted_by(wanted), self._journal.uncommitted_endings())
            yield [summary_of(record, caller) for record in uncommitted]
        while left > 0:
            records, page.following = self._journal.store.history.page(
                min(left, SLICE), cursor, wanted.user, wanted.tenant, wanted.phases, wanted.search
            )
            yield [summary_of(record, caller) for record in records]
            if page.following is None:
                return
            left, cursor = left - len(records), page.following

    def _only(self, caller: Caller, ids: Collection[JobId], wanted: Filter) -> list[JobSummary]:
        """These jobs: active ones in the order in which they are served, then ended ones, latest first."""
        active = [job for job in self._in_order() if job.id in ids]
        codes = self._codes([job.id for job in active])
        found = [self._active(job, code, caller) for job, code in zip(active, codes, strict=True)]
        ended = [self._recorded(id) for id in ids if id not in self._state.jobs]
        ended.sort(key=lambda record: (record.ended_at or 0.0, record.id), reverse=True)
        found += [summary_of(record, caller) for record in ended]
        return [
            each for each in found if wanted.matches(each.id, each.name, each.user, each.tenant, each.phase)
        ]

    def summary(self, caller: Caller, id: JobId) -> JobSummary:
        job = self._state.jobs.get(id)
        if job is not None:
            [code] = self._codes([id])
            return self._active(job, code, caller)
        return summary_of(self._recorded(id), caller)

    def _codes(self, ids: list[JobId]) -> list[str]:
        """The reasons of active jobs. The core knows only that nodes are drained, and not for which fault."""
        codes = self._journal.controller.reason_codes(ids)
        if self._host_faults.problem:
            codes = [HOST_FAULT if code == ReasonCode.OUT_OF_SERVICE else code for code in codes]
        return codes

    def _in_order(self) -> list[JobState]:
        jobs = self._state.jobs
        running = [job for job in jobs.values() if job.run is not None]
        ranked = [entry.job for entry in self._journal.controller.target if entry.job.run is None]
        if len(running) + len(ranked) == len(jobs):
            return [*running, *ranked]
        seen = {job.id for job in (*running, *ranked)}
        return [*running, *ranked, *(job for job in jobs.values() if job.id not in seen)]

    def _active(self, job: JobState, code: str, caller: Caller) -> JobSummary:
        now = self._journal.now()
        progress = None
        if job.run is not None:
            folder = self._paths.reports(job.id, job.runs)
            progress = self._progress.latest(job.run.id, folder, self._journal.wall())
        managed = self._journal.managed[job.id]
        if progress is None and managed.progress is not None:
            progress = ProgressInfo(**managed.progress)
        if progress is not None and not caller.may_touch(job.user):
            progress.metrics = {}
        return JobSummary(
            job.id,
            job.job.name,
            job.user,
            job.phase.value,
            code,
            job.gpus,
            job.runs,
            job.preemptions,
            job.service_at(now),
            job.submitted_at,
            None if job.first_started_at == INFINITY else job.first_started_at,
            None,
            None,
            progress,
            job.tenant,
            job.job.priority.value,
            self._queue(job),
            _since(job),
            text_of(code),
            job.resumable,
            managed.lost_s * job.gpus,
            loss_of(managed.lost_s, job.gpus, job.resumable),
            *range_of(job.job.demand),
        )

    def _queue(self, job: JobState) -> int | None:
        if not job.gpus:
            return None
        queue = self._journal.controller.policy.queue(job, self._state.memory, self._journal.now())
        return None if queue is None else queue + 1

    def _recorded(self, id: JobId) -> StoredJob:
        record = self._journal.job_record(id)
        if record is None:
            raise NotFound(f"there is no job {id}; `tir ls --all` lists all of them")
        return record

    def find(self, caller: Caller, text: str) -> JobId:
        """The one job that a user means by an id or a name (references.py)."""
        return self.references.one(caller, text)

    def arrays_of(self, ids: Sequence[JobId]) -> list[str]:
        """The arrays of these jobs, as far as they are active."""
        managed = self._journal.managed
        found = dict.fromkeys(managed[id].spec.array for id in ids if id in managed)
        return [array for array in found if array]

    def _readable(self, caller: Caller, id: JobId) -> JobState | None:
        """The active job, or None if it has ended. A job of another user is refused."""
        job = self._state.jobs.get(id)
        owner = job.user if job is not None else self._recorded(id).job.user
        if not caller.may_touch(owner):
            raise Denied(f"job {id} belongs to {owner}, and you are {caller.user}")
        return job

    def why(self, caller: Caller, id: JobId) -> Explanation:
        """Why a job is where it is. Every user may ask about every job: the answer says no more than `ls`."""
        job = self._state.jobs.get(id)
        if job is not None:
            out = self._gpu_health.out_of_service
            found = why(
                job,
                self._journal,
                out,
                self._admission.gpu_limit_of,
                self._host_faults.problem,
                self._nodes.silent(),
            )
            found.stopped = self._why_it_stopped(job)
            return found
        record = self._recorded(id)
        kept = record.ending or {}
        if not caller.may_touch(record.job.user):
            return Explanation(kept.get("reason", ""), f"it has ended ({record.phase})", "")
        text = " ".join(filter(None, (kept.get("sentence", ""), kept.get("evidence", ""))))
        step = f"`tir logs {id}`" if record.phase is Phase.FAILED and record.runs else ""
        managed = self._journal.managed_job(id) if kept.get("reason") == ReasonCode.TIME_LIMIT else None
        if managed is not None and managed.spec.time_limit_s:
            step = f"`tir again {id} time={2 * managed.spec.time_limit_s:g}s` gives it twice the time"
        return Explanation(kept.get("reason", ""), text, step)

    def report_folders(self, caller: Caller, id: JobId) -> list[Path]:
        """Where the runs of a job leave their progress reports, the first run first."""
        job = self._readable(caller, id)
        runs = job.runs if job is not None else self._recorded(id).runs
        return [self._paths.reports(id, number) for number in range(1, runs + 1)]

    def detail(self, caller: Caller, id: JobId) -> JobDetail:
        active = self._readable(caller, id)
        managed = self._journal.managed_job(id)
        if managed is None:
            raise NotFound(f"job {id} ended so long ago that only its line in `tir ls --all` is left")
        spec = managed.spec
        env = (self._journal.submission(id) or {}).get("env", {})
        options = {name: getattr(spec, name) for name in IN_DETAIL}
        options["checkpoint_dir"] = spec.checkpoint_dir or str(self._paths.checkpoint(id))
        return JobDetail(
            **options,
            summary=self.summary(caller, id),
            why=self.why(caller, id),
            env_names=sorted(env),
            retries_used=managed.retries_used,
            array=spec.array,
            array_index=spec.array_index,
            runs=self.runs(caller, id),
            protection="" if active is None else protection_of(active, self._journal.controller),
        )

    def runs(self, caller: Caller, id: JobId) -> list[RunInfo]:
        self._readable(caller, id)
        records = self._journal.store.runs(id)
        stopped = any(record.revoked_at is not None for record in records)
        stops = [each.fact for each in self._journal.store.stops_of_job(id)] if stopped else []
        return [self._run(record, stops) for record in records]

    def _run(self, record: StoredRun, stops: Sequence[Fact]) -> RunInfo:
        exit = record.exit or {}
        found = RunInfo(
            record.id,
            record.number,
            list(self._state.slot_names(record.allocation)),
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
        if record.revoked_at is not None:
            add_stop(found, stops)
        return found

    def _why_it_stopped(self, job: JobState) -> str:
        """Why the last run of an active job was stopped, as a phrase."""
        if not job.runs or (job.run is not None and job.phase is not Phase.STOPPING):
            return ""
        last = self._journal.store.runs(job.id)[-1:]
        if not last or last[0].revoked_at is None:
            return ""
        stops = [each.fact for each in self._journal.store.stops_of_job(job.id)]
        return self._run(last[0], stops).revoked_text

    def log_file(self, caller: Caller, id: JobId, run: int | None = None, worker: int = 0) -> LogFile:
        job = self._readable(caller, id)
        runs = job.runs if job is not None else self._recorded(id).runs
        if not runs:
            reason = self.why(caller, id)
            raise NotFound(f"job {id} has not run, so it has no output: {reason.text}")
        number = runs if run is None else run
        if not 1 <= number <= runs:
            raise NotFound(f"job {id} has no run {number}; it has runs 1 to {runs}")
        if job is None and (self._paths.job(id) / PRUNED).exists():
            raise NotFound(f"the output of job {id} was removed (tir prune)")
        path = self._paths.run(id, number) / f"worker-{worker}.log"
        is_over = number < runs or job is None or job.run is None
        if is_over and not path.exists() and worker:
            raise NotFound(f"run {number} of job {id} had no worker {worker}")
        return LogFile(path, number, worker, is_over, number + 1 if number < runs else None, job is None)

    def terminal(self, caller: Caller, id: JobId) -> LogFile:
        """The log of the run whose terminal the caller may use: only the owner, as whom one acts there."""
        job = self._readable(caller, id)
        managed = self._journal.managed.get(id)
        if job is None or managed is None:
            raise Conflict(f"job {id} has ended; see `tir logs {id}`")
        if job.user != caller.user:
            raise Denied(f"job {id} belongs to {job.user}, who alone can use its terminal")
        if not managed.spec.pty:
            raise Conflict(f"job {id} has no terminal; submit it with --pty, or see `tir logs -f {id}`")
        if job.phase not in (Phase.RUNNING, Phase.STOPPING):
            raise Conflict(f"job {id} is {job.phase}: {self.why(caller, id).text}")
        return self.log_file(caller, id)

    # --- the cluster -----------------------------------------------------------------------------------

    def status(self) -> ManagerStatus:
        active = Counter(job.phase for job in self._state.jobs.values())
        ended = Counter(self._journal.store.ended_counts())
        ended.update(record.phase.value for record in self._journal.uncommitted_endings())
        counts = {**ended, **{phase.value: count for phase, count in active.items()}}
        return ManagerStatus(
            os.getpid(),
            self._journal.now() - self._began_at,
            __version__,
            self._journal.chosen.policy,
            dict(self._journal.chosen.options),
            self._journal.chosen.placer,
            self._state.ledger.gpus,
            self._state.ledger.free,
            counts,
            not self._journal.problem,
            self._journal.problem,
            self._host_faults.problem,
            self._journal.clock.problem(),
            self.plugin_problem(),
        )

    def plugin_problem(self) -> str:
        """What a policy or a placer raised that is not in use any more because of that; or what was wrong
        with the last wish of an allocator, or with what the policy was given, which is in use; or empty."""
        failure = fallback.problem(self._journal.setting(FAILURE))
        controller = self._journal.controller
        return failure or fallback.refusal(controller) or controller.policy.problem

    def policy(self) -> dict[str, Any]:
        """The policy in use, its options, and the thresholds that it has learned."""
        memory = self._state.memory
        ladder = self._journal.controller.policy.thresholds(memory)
        return {
            "name": self._journal.chosen.policy,
            "options": dict(self._journal.chosen.options),
            "placer": self._journal.chosen.placer,
            "placer_options": dict(self._feedback.given),
            "placer_learned": {
                name: value
                for name, value in self._journal.chosen.placer_options.items()
                if name not in self._feedback.given
            },
            "queues_gpu_s": None if ladder is None else list(ladder),
            "learned": list(self._journal.controller.policy.learned(memory)),
            "problem": self.plugin_problem() or None,
        }

    def _without_metrics(self, jobs: Sequence[JobState]) -> list[JobSummary]:
        codes = self._codes([job.id for job in jobs])
        return [self._active(job, code, NOBODY) for job, code in zip(jobs, codes, strict=True)]

    def profiles(self) -> dict[str, Any]:
        """The profiles that jobs brought along, by the names of their models."""
        known = self._journal.profiles
        return {name: as_dict(profile) for name in known if (profile := known.find(name)) is not None}

    def slowdowns(self) -> list[SlowdownRow]:
        """How fast gangs ran in which shape, what was predicted, and what the placer uses."""
        return self._feedback.slowdowns()

    def limits(self, caller: Caller) -> dict[str, Limits]:
        if caller.is_admin:
            return dict(self._admission.limits)
        return {caller.user: self._admission.limits_of(caller.user)}

    def shares(self) -> dict[str, float]:
        """The weights of tenants that were set."""
        return dict(self._journal.controller.state.shares)

    def usage(self, caller: Caller, by: str, since_s: float | None = None) -> list[UsageRow]:
        """What each user or tenant got in the last `since_s` seconds, or since the beginning."""
        if by not in ("user", "tenant"):
            raise Invalid(f"usage by {by!r}: give user or tenant")
        now = self._journal.now()
        since = 0.0 if since_s is None else now - since_s
        rows = {
            who: UsageRow(who, jobs, 0, 0, service, wait, short, again, lost)
            for who, jobs, service, wait, short, again, lost in self._journal.store.history.usage(
                by, since, SHORT_JOB_S
            )
        }
        for job in self._state.jobs.values():
            who = job.user if by == "user" else job.tenant
            row = rows.setdefault(who, UsageRow(who, 0, 0, 0, 0.0, None, 0, 0))
            row.jobs += 1
            row.active_jobs += 1
            row.running_gpus += job.gpus if job.run is not None else 0
            row.service_gpu_s += job.service_at(now)
            row.lost_gpu_s += self._journal.managed[job.id].lost_s * job.gpus
        return sorted(rows.values(), key=lambda row: (-row.service_gpu_s, row.who))

    def events(self, caller: Caller, since: int, limit: int = 1000) -> list[EventInfo]:
        return self._event_infos(self._journal.store.facts(since, limit))

    def story(self, caller: Caller, id: JobId) -> list[EventInfo]:
        self._readable(caller, id)
        return self._event_infos(self._journal.store.facts_of_job(id))

    def _event_infos(self, stored: list[StoredFact]) -> list[EventInfo]:
        """The facts as events, with runs by the numbers that `show` gives them."""
        ids = {id for each in stored if (id := getattr(each.fact, "run_id", None)) is not None}
        numbers = self._journal.store.run_numbers(ids)
        exited = {each.seq: each.fact.run_id for each in stored if isinstance(each.fact, RunExited)}
        exits = self._journal.store.exits(exited.values())
        stopped_by = self._journal.store.stopped_by(exited)
        runs = [getattr(each.fact, "run_id", NO_RUN) for each in stored]
        return [
            event_of(each, numbers.get(run), exits.get(run), stopped_by.get(each.seq, ""))
            for each, run in zip(stored, runs, strict=True)
        ]

    def history(
        self, caller: Caller, cursor: int | None, limit: int = 1000
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Ended jobs, the latest first, with the columns of a trace (ended.py)."""
        records, following = self._journal.store.history.page(limit, cursor)
        runs = self._journal.store.spans(record.id for record in records)
        rows = [trace_row(record, runs.get(record.id, []), caller) for record in records]
        return rows, following


def _wanted_by(wanted: Filter) -> Callable[[StoredJob], bool]:
    def is_wanted(record: StoredJob) -> bool:
        job = record.job
        return wanted.matches(record.id, job.name, job.user, job.tenant, record.phase.value)

    return is_wanted


def _since(job: JobState) -> float | None:
    """Since when an active job is in its phase; None while it stops, because the State does not know."""
    if job.run is None:
        return job.waiting_since
    if job.phase is Phase.STOPPING:
        return None
    return job.run.granted_at if job.run.started_at == INFINITY else job.run.started_at
