"""Keeping the books in line with the machine: what the executor reports, and what the clock makes due."""

from __future__ import annotations

import os
import shutil
from threading import Thread
from typing import Any, NamedTuple

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.state import JobState, Run
from tiresias.executors.base import RunGone, RunUp
from tiresias.job.reports import is_finished
from tiresias.live.books import Books
from tiresias.live.gates import BACKOFF
from tiresias.live.notes import Note
from tiresias.live.outcome import Outcome, decide, exit_record
from tiresias.store import StoreError

OUT_OF_SERVICE = "out_of_service"  # the setting: why which slot or node is
FAULTS = "gpu_faults"  # the setting: which jobs died of which slot, since anything went well there
FOREIGN = "used by others: "
UNHEALTHY = "unhealthy: "
LATE_S = 1.0  # a run that ended so long ago ended while nobody looked
BITE = 1000  # facts that leave the journal at once
BITE_EVERY_S = 1.0
MOST_REMEMBERED = 1000  # commands that failed in a way that would come again


class FailedAlike(NamedTuple):
    """A command that failed so often in a row in the same way, last in this job."""

    times: int
    id: JobId
    reason: str
    words: str


class Keeper(Books):
    """Takes in what happens by itself."""

    def __init__(self, *args: Any, **named: Any):
        super().__init__(*args, **named)
        self.out_of_service: dict[str, str] = self.store.setting(OUT_OF_SERVICE, {})
        self._faults: dict[str, list[int]] = self.store.setting(FAULTS, {})
        self._failed_alike: dict[str, FailedAlike] = {}  # by fingerprint, the latest last
        self._gpus_checked_at = -INFINITY
        self._preflights_checked_at = -INFINITY
        self._compacted_at = self.now()
        for record in reversed(self.store.ended(limit=500)[0]):
            if record.ending:
                self._remember(record.id, record.phase, record.ending)

    # --- reports ---------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take the executor's reports in."""
        for report in self.executor.poll():
            run = self.state.runs.get(report.run_id)
            if run is None:
                if isinstance(report, RunGone):
                    self._forget.append(report.run_id)  # its exit is stored already
            elif isinstance(report, RunUp):
                if run.started_at == INFINITY:
                    self.apply(f.RunStarted(self.now(), run.id))
            else:
                self._gone(run, report)

    def _gone(self, run: Run, gone: RunGone) -> None:
        at = self.now()
        job = self.state.jobs[run.job_id]
        note = self.notes[job.id]
        told = self.places.told(job.id, job.runs)
        heard = self.progress.told(run.id, told, at)
        self.told(run, job, heard)
        note.progress = self.progress.close(run.id, told, at) or note.progress
        since = run.granted_at if run.started_at == INFINITY else run.started_at
        ended_at = _ended_at(run, gone, at)
        over_at = at if ended_at is None else ended_at
        outcome = decide(gone, note, over_at - since, said_finished=is_finished(told), settings=self.settings)
        record = exit_record(gone, outcome) | {"told": heard}
        slots = list(self.state.ledger.slot_names(run.allocation))
        if outcome.exit in (ExitCause.FAILED, ExitCause.RETRIED):
            note.failure = {key: record[key] for key in ("reason", "sentence", "evidence")}
        self._endings[job.id] = {
            **{key: record[key] for key in ("reason", "sentence", "evidence")},
            "exit_code": gone.status if gone.exits else None,
            "is_deterministic": outcome.is_deterministic,
        }
        facts: list[f.Fact] = [] if ended_at is None else [f.RunEnded(at, run.id, ended_at)]
        facts.append(f.RunExited(at, run.id, outcome.exit, job.progress_at(over_at)))
        goes_on = outcome.exit in (ExitCause.PREEMPTED, ExitCause.RETRIED) and not job.cancelled
        if goes_on and outcome.backoff_s:
            facts.append(f.JobDeferred(at, job.id, BACKOFF, at + outcome.backoff_s))
        elif goes_on and (why := self.gates.bars(job.id, at)):
            facts.append(f.JobDeferred(at, job.id, why))
        self._batch.exits[run.id] = record
        self.note(job.id)
        self.apply(*facts)
        if goes_on:
            self._endings.pop(job.id, None)
            self.gates.touch_job(job.id)
        self._forget.append(run.id)
        self._blame(slots, job.id, outcome)

    def told(self, run: Run, job: JobState, heard: list[Any] | None) -> None:
        """For whoever wants to know what a training told in a run that has ended."""

    def ended(self, job: JobState, note: Note, record: dict[str, Any]) -> None:
        self._remember(job.id, job.phase, record)
        if note.preflight_job is not None and note.preflight_job in self.state.jobs:
            self.apply(f.JobCancelled(self.now(), note.preflight_job))
        if note.light.snapshot:
            self._afterwards.append(lambda: self._remove_snapshot(note.light.snapshot))

    def _remove_snapshot(self, path: str) -> None:
        """Only what lies in our own home and no other job uses (the jobs of an array share one)."""
        ours = self.home / "snapshots" / os.path.basename(os.path.normpath(path))
        if path == str(ours) and not self.notes.is_used(path):  # not `..`, say: a user has named it
            Thread(target=shutil.rmtree, args=(path, True), daemon=True).start()  # there may be much of it

    # --- failures --------------------------------------------------------------------------------------

    def _remember(self, id: JobId, phase: Phase, record: dict[str, Any]) -> None:
        """Which commands fail in the same way each time."""
        mark = record.get("fingerprint", "")
        if phase is Phase.SUCCEEDED:
            self._failed_alike.pop(mark, None)
        elif phase is Phase.FAILED and record.get("is_deterministic"):
            reason = record["reason"]
            before = self._failed_alike.pop(mark, None)
            times = before.times + 1 if before is not None and before.reason == reason else 1
            words = record.get("evidence") or record["sentence"]
            self._failed_alike[mark] = FailedAlike(times, id, reason, words)
            if len(self._failed_alike) > MOST_REMEMBERED:
                del self._failed_alike[next(iter(self._failed_alike))]

    def _blame(self, slots: list[str], id: JobId, outcome: Outcome) -> None:
        """Take GPUs out of service on which different jobs keep dying."""
        changed = False
        for slot in slots:
            if outcome.blames_gpu:
                died = self._faults.setdefault(slot, [])
                if id not in died:
                    died.append(id)
                    changed = True
                if len(died) >= self.settings.withdraw_after and slot not in self.out_of_service:
                    jobs = ", ".join(map(str, died))
                    self.withdraw(slot, f"jobs {jobs} died of it: {outcome.evidence or outcome.sentence}")
            elif outcome.exit is ExitCause.FINISHED and self._faults.pop(slot, None) is not None:
                changed = True
        if changed:
            self._batch.settings[FAULTS] = dict(self._faults)

    def withdraw(self, slot: str, reason: str) -> None:
        node, _, index = slot.rpartition(":")
        self.out_of_service[slot] = reason
        self.apply(f.SlotDrained(self.now(), node, int(index)))
        self._keep_reasons()

    def restore(self, slot: str) -> None:
        node, _, index = slot.rpartition(":")
        self.out_of_service.pop(slot, None)
        self._faults.pop(slot, None)
        self.apply(f.SlotRestored(self.now(), node, int(index)))
        self._keep_reasons()

    def _keep_reasons(self) -> None:
        self._batch.settings[OUT_OF_SERVICE] = dict(self.out_of_service)
        self._batch.settings[FAULTS] = dict(self._faults)

    # --- the clock -------------------------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        """When `tick` has something to do, if nothing happens before."""
        due = min(self.timer_at, self.gates.next_begin_at, self._compacted_at + self.settings.compact_every_s)
        for run in self.state.runs.values():
            due = min(due, self._expires_at(run))
            if self._is_trying(run):
                due = min(due, self._preflights_checked_at + self.settings.preflight_check_s)
        if self.machine.watch is not None:
            due = min(due, self._gpus_checked_at + self.settings.gpu_check_s)
        return due

    def tick(self) -> None:
        """Whatever is due."""
        at = self.now()
        if self.timer_at <= at:
            # At the instant that was wished for, however late we look: so a queue's threshold is crossed
            # exactly, as in a simulation, and who is stopped there waits where the policy means it to.
            due_at, self.timer_at = max(self.timer_at, self.state.at), INFINITY
            self.apply(f.TimerFired(due_at))
        for run in list(self.state.runs.values()):
            if self._expires_at(run) <= at:
                self._expire(self.state.jobs[run.job_id], at)
        if at >= self._preflights_checked_at + self.settings.preflight_check_s:
            self._preflights_checked_at = at
            for run in list(self.state.runs.values()):
                if self._is_trying(run):
                    self._look_at_preflight(run, at)
        if self.machine.watch is not None and at >= self._gpus_checked_at + self.settings.gpu_check_s:
            self._gpus_checked_at = at
            self._check_gpus()
        if at >= self._compacted_at + self.settings.compact_every_s:
            self._compacted_at = at
            self._afterwards.append(self._compact)

    def _compact(self) -> None:
        """In small bites, so that nobody waits for it; the next one comes soon while there is more."""
        keep_s = self.settings.keep_facts_s
        try:
            before_at = self.now() - keep_s
            done = self.store.compact(before_at, limit=BITE, base_every_s=keep_s / 8, state=self.state)
        except StoreError as error:
            self.problem = str(error)
            return
        if not done.is_complete:
            self._compacted_at += BITE_EVERY_S - self.settings.compact_every_s

    def _expires_at(self, run: Run) -> float:
        job = self.state.jobs[run.job_id]
        limit_s = self.notes[job.id].light.time_limit_s
        if limit_s is None or job.phase is Phase.STOPPING:
            return INFINITY
        return run.granted_at + limit_s - job.held_s

    def _expire(self, job: JobState, at: float) -> None:
        self.notes[job.id].is_expired = True
        self.note(job.id)
        self.apply(f.JobRequeued(at, job.id))

    def _is_trying(self, run: Run) -> bool:
        job = self.state.jobs[run.job_id]
        return self.notes[job.id].preflight_of is not None and job.phase is not Phase.STOPPING

    def _look_at_preflight(self, run: Run, at: float) -> None:
        """Enough is seen after the first report, or when it has run for long enough without failing."""
        job = self.state.jobs[run.job_id]
        note = self.notes[job.id]
        told = self.progress.of(run.id, self.places.told(job.id, job.runs), at)
        is_up = run.started_at != INFINITY
        if told is not None or (is_up and at - run.started_at >= note.light.preflight_limit_s):
            note.is_tried = True
            self.note(job.id)
            self.apply(f.JobRequeued(at, job.id))

    def _check_gpus(self) -> None:
        watch = self.machine.watch
        assert watch is not None
        by_uuid = {gpu.uuid: slot for slot, gpu in self.machine.gpus.items() if gpu.uuid}
        ill = watch.unhealthy(list(by_uuid))
        wrong = {by_uuid[uuid]: f"{UNHEALTHY}{why}" for uuid, why in ill.items()}
        for uuid, pids in watch.foreign(list(by_uuid)).items():
            wrong.setdefault(by_uuid[uuid], FOREIGN + "pid " + ", ".join(map(str, pids)))
        for slot, reason in wrong.items():
            if slot not in self.out_of_service:
                self.withdraw(slot, reason)
        for slot, reason in list(self.out_of_service.items()):
            is_seen = slot in by_uuid.values()  # one that could not be reached at the start cannot be watched
            if is_seen and reason.startswith((FOREIGN, UNHEALTHY)) and slot not in wrong:
                self.restore(slot)


def _ended_at(run: Run, gone: RunGone, at: float) -> float | None:
    """When it ended, if that is known and was long before anybody looked: the manager was down.

    Never before the last that is known of it: clocks may have been set.
    """
    ended_at = max(gone.ended_at, run.progress_at)
    return ended_at if gone.ended_at and at - ended_at > LATE_S else None
