"""The manager's books: facts go in, are made durable, and only then are the commands carried out.

Rules:
- Everything that happens goes through `apply`. It changes the State at once, and nothing else.
- `flush` makes all of it durable in one transaction, then carries out what was decided. If it cannot be made
  durable, nothing is carried out, everything is kept, and `flush` is called again later.
- Whatever a killed manager had decided and not done is commanded again by the next one (`recover`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.core import facts as f
from tiresias.core.commands import Command, SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.core.state import JobState, State
from tiresias.executors.base import Executor, RunSpec
from tiresias.live.clock import Clock
from tiresias.live.errors import Unavailable
from tiresias.live.gates import Gates
from tiresias.live.machine import Machine
from tiresias.live.models import Models
from tiresias.live.notes import Note, Notes
from tiresias.live.places import Places
from tiresias.live.progress import ProgressBook
from tiresias.live.reports import Limits
from tiresias.live.settings import Settings
from tiresias.live.submission import Submission
from tiresias.store import Batch, Chosen, Loaded, Store, StoredJob, StoreError

LIMITS = "limits"  # the setting that holds them


class Books:
    """State, journal and executor of one manager, and what ties them together."""

    def __init__(
        self,
        home: Path,
        store: Store,
        executor: Executor,
        machine: Machine,
        controller: Controller,
        chosen: Chosen,
        *,
        clock: Clock,
        settings: Settings | None = None,
    ):
        self.home, self.places = home, Places(home)
        self.store, self.executor, self.machine = store, executor, machine
        self.controller, self.chosen = controller, chosen
        self.clock, self.settings = clock, settings or Settings()
        self.notes = Notes()
        self.gates = Gates(self.state.jobs, self.notes)
        limits: dict[str, Any] = store.setting(LIMITS, {})
        self.gates.limits = {user: Limits(**what) for user, what in limits.items()}
        self.progress = ProgressBook()
        self.models = Models()
        self.timer_at = INFINITY
        self.problem = ""  # what keeps us from going on
        self.next_job_id = store.next_job_id
        self._batch = Batch()
        self._step = Step()
        self._commands: deque[Command] = deque()
        self._forget: deque[RunId] = deque()
        self._afterwards: deque[Callable[[], None]] = deque()  # what is done once the batch is durable
        self._endings: dict[JobId, dict[str, Any]] = {}  # what to keep of jobs that end in this batch

    @property
    def state(self) -> State:
        return self.controller.state

    # --- facts -----------------------------------------------------------------------------------------

    def apply(self, *facts: f.Fact) -> None:
        """Let the Controller handle what happened at one instant; keep what it decided for `flush`."""
        step = self._step
        self.controller.handle(facts, step)
        self._batch.add(facts, step)
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timer_at = command.at
            else:
                self._commands.append(command)
        moved = [fact.job_id for fact in step.facts if isinstance(fact, f.JobCleared | f.RunGranted)]
        for fact in (*facts, *step.facts):
            if isinstance(fact, f.JobCleared | f.JobReleased):
                self._note_ready(fact.job_id, fact.at)
        ended = list(step.ended)
        for part in (step.facts, step.commands, step.ended):
            part.clear()
        for job in ended:
            self._close(job)
        for id in moved:
            self.gates.touch_job(id)

    def _note_ready(self, id: JobId, at: float) -> None:
        """Before its first run, a job that no longer waits for anything but its turn."""
        job = self.state.jobs.get(id)
        if job is not None and job.first_started_at >= at:
            self.notes[id].ready_at = at
            self.note(id)

    def settle(self) -> None:
        """Defer, clear and fail whom the gates name, until nothing more follows."""
        while True:
            at = self.now()
            if facts := self.gates.facts(at):
                self.apply(*facts)
            elif doomed := self.gates.doomed():
                for id, other in doomed.items():
                    self._endings[id] = self._ending_of(id, other)
                self.apply(*(f.JobFailed(at, id) for id in doomed))
            else:
                return

    def _ending_of(self, id: JobId, other: JobId) -> dict[str, Any]:
        """What is kept of a job that fails because another one did."""
        if self.notes[id].preflight_job != other:
            text = f"It comes after job {other}, which did not succeed; see `tir show {other}`."
            return {"reason": "DependencyFailed", "sentence": text}
        record = self.record(other)
        why = self._endings.get(other) or (record and record.ending) or {}
        text = f"Its preflight (job {other}) failed: {why.get('sentence', '')}"
        return {"reason": "PreflightFailed", "sentence": text, "evidence": why.get("evidence", "")}

    def _close(self, job: JobState) -> None:
        """A job has ended: keep what is to be kept of it, and let go of the rest."""
        note = self.notes.leave(job.id)
        ending = self._endings.pop(job.id, {})
        if job.phase is Phase.CANCELLED:
            ending = {**ending, "reason": "Cancelled", "sentence": "It was cancelled."}
        kept = {"fingerprint": note.fingerprint, "progress": note.progress, "ready_at": note.ready_at}
        self._batch.endings[job.id] = ending | kept
        self._batch.managed[job.id] = note.to_json()
        self.gates.remove(job.id, note, has_succeeded=job.phase is Phase.SUCCEEDED)
        self.ended(job, note, self._batch.endings[job.id])

    def ended(self, job: JobState, note: Note, record: dict[str, Any]) -> None:
        """For whoever wants to know that a job has ended."""

    def note(self, id: JobId) -> None:
        """The note of this job has changed."""
        self._batch.managed[id] = self.notes[id].to_json()

    def now(self) -> float:
        """The instant of what happens now; never before the last fact."""
        return max(self.clock.now(), self.state.at)

    # --- making it so ----------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Nothing new is accepted while what was accepted cannot be made durable."""
        if self.problem:
            raise Unavailable(f"the manager cannot go on at present: {self.problem}")

    def flush(self) -> None:
        """Make everything durable, then carry it out; StoreError if it could not be."""
        self.settle()
        batch = self._batch
        try:
            if batch.steps or batch.managed or batch.settings:
                self.store.commit(self.controller, batch)
                self._batch = Batch()
            self.problem = ""
            self._act()
        except StoreError as error:
            self.problem = str(error)
            raise

    def _act(self) -> None:
        """Carry out what is durable; what cannot be carried out now is kept for the next time."""
        for _ in range(len(self._commands)):
            self._carry_out(self._commands[0])
            self._commands.popleft()
        while self._forget:
            self.executor.forget(self._forget.popleft())
        while self._afterwards:
            self._afterwards.popleft()()

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, StartRun):
            job = self.state.jobs.get(command.job_id)
            if job is not None and job.run is not None and job.run.id == command.run_id:
                self.executor.start(self.spec(job))
        elif isinstance(command, StopRun):
            run = self.state.runs.get(command.run_id)
            if run is not None:
                self.executor.stop(run.id, self.notes[run.job_id].light.grace_s)

    def spec(self, job: JobState) -> RunSpec:
        """All that the executor needs for the run that the job has now."""
        run = job.run
        assert run is not None, ("no run", job.id)
        body = self.store.submission(job.id)
        assert body is not None, ("an active job without its submission", job.id)
        asked = Submission.from_json(body)
        note = self.notes[job.id]
        own = self.places.checkpoint(job.id)
        if not asked.checkpoint_dir:
            self._make_checkpoint_dir(own, asked)
        return RunSpec(
            run.id,
            job.id,
            job.runs,
            asked.command,
            asked.cwd,
            asked.env,
            self.machine.slots(run.allocation, self.state.ledger),
            self.places.run(job.id, job.runs),
            asked.checkpoint_dir or str(own),
            job_name=job.job.name,
            workers=asked.workers,
            grace_s=note.light.grace_s,
            resumes=job.runs > 1,
            preflight=note.preflight_of is not None,
            array_index=asked.array_index,
            launcher=asked.launcher,
            identity=asked.identity,
        )

    def _make_checkpoint_dir(self, path: Path, asked: Submission) -> None:
        with suppress(OSError):  # the run will say what is wrong when it wants to save
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
            path.mkdir(exist_ok=True, mode=0o700)
            if asked.identity is not None and os.geteuid() == 0:
                os.chown(path, asked.identity.uid, asked.identity.gid)

    # --- restart ---------------------------------------------------------------------------------------

    def recover(self, loaded: Loaded) -> None:
        """Take over from a manager that ended, however it ended."""
        for id, body in loaded.managed.items():
            self.notes.enter(id, Note.from_json(body))
        for id in self.state.jobs:
            note = self.notes[id]
            needs = (*note.light.after, *(() if note.preflight_job is None else (note.preflight_job,)))
            self.gates.add(id, [other for other in needs if other in self.state.jobs])
            for other in needs:
                if other not in self.state.jobs and not self._has_succeeded(other):
                    self.gates.doom(id, other)
        runs = [self.state.runs[record.id] for record in loaded.open_runs]
        adopted = self.executor.adopt([self.spec(self.state.jobs[run.job_id]) for run in runs])
        told = {command.run_id for command in loaded.commands if isinstance(command, StartRun | StopRun)}
        self._commands += loaded.commands
        self._commands += [StopRun(id) for id in adopted.absent if id not in told]
        at = self.now()
        self.apply(*self.machine_facts(at), f.TimerFired(at))

    def machine_facts(self, at: float) -> list[f.Fact]:
        """How the machine differs from what the journal knows: told before anything is planned on it."""
        return []

    # --- jobs that have ended --------------------------------------------------------------------------

    def record(self, id: JobId) -> StoredJob | None:
        """What is known of a job that is not active; None if there never was such a job."""
        job = self._batch.ended.get(id)
        return self.store.job(id) if job is None else self._ending(job)

    def endings(self) -> list[StoredJob]:
        """Jobs that are active no more and not yet so in the journal, the latest first."""
        return [self._ending(job) for job in reversed(self._batch.ended.values())]

    def _has_succeeded(self, id: JobId) -> bool:
        record = self.record(id)
        return record is not None and record.phase is Phase.SUCCEEDED

    def _ending(self, job: JobState) -> StoredJob:
        return StoredJob.of_ended(job, self._batch.endings.get(job.id))
