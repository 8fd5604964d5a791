"""From what the executor reports about runs to facts, retries and exit records; time limits; preflights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, JobId, Phase, Pool
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import JobState, Run
from tiresias.executors.base import Executor, RunGone, RunUp, Slot, parts_of
from tiresias.job.reports import is_finished
from tiresias.live.admission import BACKOFF
from tiresias.live.clock import Clock
from tiresias.live.dispatcher import Dispatcher
from tiresias.live.gpu_health import split_slot
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import LATE_S, Exit, Input, Journal, Taken
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.outcome import decide, exit_record
from tiresias.live.progress_reader import ProgressReader
from tiresias.live.saving import Judgement, judge
from tiresias.live.settings import Settings
from tiresias.live.time_limits import TimeLimits
from tiresias.live.words import killed, not_stopped

KEPT = ("reason", "sentence", "evidence")  # of an exit record, in the ending of the job


class Runs:
    """The part that follows runs from their start to their exit.

    `reason_after_exit` answers what defers a job whose run has just exited, or "". `pause_starts` returns the
    facts that keep others from starting, given what is wrong with the machine.
    """

    def __init__(
        self,
        journal: Journal,
        executor: Executor,
        dispatcher: Dispatcher,
        progress: ProgressReader,
        paths: HomePaths,
        settings: Settings,
        reason_after_exit: Callable[[JobId], str],
        pause_starts: Callable[[str, float], list[f.Fact]],
    ):
        self._journal, self._executor, self._dispatcher = journal, executor, dispatcher
        self._progress, self._paths, self._settings = progress, paths, settings
        self._reason_after_exit, self._pause_starts = reason_after_exit, pause_starts
        self.limits = TimeLimits(journal)
        self._preflights_checked_at = -INFINITY

    def poll(self) -> Iterator[Input]:
        """What the executor has to report; each input must be handled before the next one is asked for."""
        state, managed = self._journal.state, self._journal.managed
        for report in self._executor.poll():
            run = state.runs.get(report.run_id)
            if run is None:
                if isinstance(report, RunGone):
                    self._dispatcher.forget(report.run_id)  # its exit is stored already
            elif isinstance(report, RunUp):
                if run.started_at == INFINITY:
                    yield Input([f.RunStarted(self._journal.now(), run.id, self._speed(run))])
            else:
                assert run.job_id in managed, ("a run of a job that is not active", run.id)
                yield self.exited(run, report)

    def exited(self, run: Run, gone: RunGone) -> Input:
        """What follows from the end of a run."""
        at = self._journal.now()
        job = self._journal.state.jobs[run.job_id]
        managed = self._journal.managed[job.id]
        if gone.never_begun and managed.is_expired:  # its last time went by before the run was there
            managed = self._journal.managed.change(job.id, is_expired=False)
        folder = self._paths.reports(job.id, job.runs)
        wall = self._journal.wall()
        reports = self._progress.first_and_last(run.id, folder, wall)
        reported = self._progress.saved(run.id)
        progress = self._progress.close(run.id, folder, wall) or managed.progress
        ended_at = ended_before(run, gone, at, self._journal.clock)
        over_at = at if ended_at is None else ended_at
        # Of a run that started and ended while the manager was down, the start is seen only after the end.
        since = run.started_at if run.started_at <= over_at else run.granted_at
        said_finished = is_finished(folder)
        outcome = decide(gone, managed, over_at - since, said_finished=said_finished, settings=self._settings)
        judgement = Judgement("")
        changes: dict[str, Any] = {"progress": progress, "steps": None, **outcome.counts}
        if outcome.exit is ExitCause.PREEMPTED and not job.cancelled and gone.exits:
            judgement = judge(
                gone,
                job,
                managed,
                held_s=over_at - run.granted_at,
                steps=_steps(reports),
                reported=reported,
                judge_after_s=self._settings.judge_after_s,
                at=at,
            )
            changes |= judgement.changes
        grace_s = self._grace_s(managed)
        how = not_stopped(grace_s) if gone.killed else ""
        outcome = replace(outcome, sentence=_with_its_work(outcome.sentence, how, judgement.sentence))
        record = exit_record(gone, outcome, grace_s) | {"reported": reports, "lost_s": judgement.lost_s}
        if outcome.exit in (ExitCause.FAILED, ExitCause.RETRIED):
            changes["failure"] = {key: record[key] for key in KEPT}
        self._journal.managed.change(job.id, **changes)
        self._journal.keep_exit(run.id, record)
        self._dispatcher.forget(run.id)
        ending = {
            **{key: record[key] for key in KEPT},
            "exit_code": gone.status if gone.exits else None,
            "is_deterministic": outcome.is_deterministic,
            "how": how,
        }
        facts: list[f.Fact] = []
        if outcome.code is ReasonCode.HOST_FAULT:
            facts += self._pause_starts(outcome.sentence, at)  # first: its slots must not go to the next job
        if ended_at is not None:
            facts.append(f.RunEnded(at, run.id, ended_at))
        saved_s = job.progress_s if judgement.lost_s else run.work_at(max(over_at, run.progress_at))
        facts.append(f.RunExited(at, run.id, outcome.exit, saved_s))
        facts += judgement.facts
        if outcome.exit in (ExitCause.PREEMPTED, ExitCause.RETRIED) and not job.cancelled:
            if outcome.backoff_s:
                facts.append(f.JobDeferred(at, job.id, BACKOFF, at + outcome.backoff_s))
            elif reason := self._reason_after_exit(job.id):
                facts.append(f.JobDeferred(at, job.id, reason))
        slots = tuple(self._journal.state.slot_names(run.allocation))
        exit = Exit(run, job, slots, outcome, reports, failed_on(slots, gone))
        return Input(facts, {job.id: ending}, exit)

    def _speed(self, run: Run) -> float:
        """Seconds of work per second: on CPUs what the user has said."""
        job = self._journal.state.jobs[run.job_id]
        return 1.0 if run.pool is Pool.GPUS else job.job.demand.cpu_speed or 1.0

    def _grace_s(self, managed: ManagedJob) -> float:
        return min(managed.spec.grace_s, self._settings.most_grace_s)

    def on(self, taken: Taken) -> list[Input]:
        self.limits.on(taken)
        return []

    # --- time limits and preflights --------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        if self._journal.overdue:
            return self._journal.now()
        due_at = self.limits.next_at
        if any(map(self._is_preflight, self._preflights())):
            due_at = min(due_at, self._preflights_checked_at + self._settings.preflight_check_s)
        return due_at

    def due(self, at: float) -> Iterator[Input]:
        """Stop runs whose time limit has passed, and preflights that have been seen to work.

        Runs that were granted long before that could be stored end without having begun.
        """
        runs, managed = self._journal.state.runs, self._journal.managed
        while self._journal.overdue:
            run_id = self._journal.overdue.pop()
            if run_id in runs:
                yield self.exited(runs[run_id], RunGone(run_id, stopped=True, never_begun=True))
        for run in self.limits.expired(at):
            if self.limits.expires_at(run) <= at:
                managed.change(run.job_id, is_expired=True)
                yield Input([f.JobRequeued(at, run.job_id)])
        if at >= self._preflights_checked_at + self._settings.preflight_check_s:
            self._preflights_checked_at = at
            for run in self._preflights():
                if self._is_preflight(run) and self._has_shown_enough(run, at):
                    managed.change(run.job_id, is_tried=True)
                    yield Input([f.JobRequeued(at, run.job_id)])

    def _preflights(self) -> list[Run]:
        """The runs of jobs that only try whether another job works."""
        jobs = self._journal.state.jobs
        runs = [job.run for id in self._journal.managed.preflights if (job := jobs.get(id)) is not None]
        return sorted([run for run in runs if run is not None], key=lambda run: run.id)

    def _job(self, run: Run) -> JobState:
        return self._journal.state.jobs[run.job_id]

    def _is_preflight(self, run: Run) -> bool:
        is_one = self._journal.managed[run.job_id].preflight_of is not None
        return is_one and self._job(run).phase is not Phase.STOPPING

    def _has_shown_enough(self, run: Run, at: float) -> bool:
        """After its first progress report, or when it has run for long enough without failing."""
        job = self._job(run)
        folder = self._paths.reports(job.id, job.runs)
        if self._progress.latest(run.id, folder, self._journal.wall()) is not None:
            return True
        limit_s = self._journal.managed[job.id].spec.preflight_limit_s
        return run.started_at != INFINITY and at - run.started_at >= limit_s


def _steps(reports: list[Any] | None) -> tuple[int, int] | None:
    """The first and the last step that a run has reported; None if it has reported none."""
    if reports is None or reports[0][1] is None or reports[1][1] is None:
        return None
    return reports[0][1], reports[1][1]


def _with_its_work(sentence: str, how: str, of_its_work: str) -> str:
    """How a run ended, whether it had to be killed, and what became of its work."""
    return " ".join(filter(None, (sentence, killed(how), of_its_work)))


def failed_on(slots: tuple[str, ...], gone: RunGone) -> str:
    """The node of the worker that failed first, or of all workers; empty if that is not known."""
    nodes = list(dict.fromkeys(slot.rpartition(":")[0] for slot in slots))
    if len(nodes) < 2:
        return nodes[0] if nodes else ""
    if gone.unknown_on:
        return gone.unknown_on[0]
    if gone.first_failed is None:
        return ""
    parts = parts_of(tuple(Slot(*split_slot(slot)) for slot in slots), len(gone.exits))
    return next((part.node for part in reversed(parts) if part.first_worker <= gone.first_failed), "")


def ended_before(run: Run, gone: RunGone, at: float, clock: Clock) -> float | None:
    """When the run ended, if that is known and was well before `at`: the manager was down meanwhile.

    It is known by the time that had elapsed since the boot, and for exit records of earlier versions by the
    wall clock, though not before the last instant at which the run is known to have worked. A run of which
    nothing is known but that the machine was booted after its grant ended at the last instant that was stored
    before the boot. A run that has never begun ended with its grant.
    """
    if gone.never_begun:
        return run.granted_at if at - run.granted_at > LATE_S else None
    ended_at: float | None = None if gone.lost else clock.instant_of(gone.boot_id, gone.ended_elapsed_s)
    if ended_at is None:
        ended_at = clock.last_before_boot(run.id)
    if ended_at is None and gone.ended_at and not gone.boot_id:
        ended_at = max(gone.ended_at, run.progress_at)
    if ended_at is None:
        return None
    ended_at = max(ended_at, run.granted_at)
    return ended_at if at - ended_at > LATE_S else None
