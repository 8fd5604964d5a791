"""The Controller and the store of one manager: facts are taken in, committed, and only then acted upon.

Rules:
- Everything that happens goes through `take`. It changes the State at once, and nothing else in the world.
- `commit` makes all of it durable in one transaction. What was decided (`commands`) is carried out after it.
  If the commit fails, nothing is carried out, everything is kept, and the next commit tries again.
- Whatever a killed manager had decided and not done is commanded again by the next one (Manager.open).
- The journal alone owns the batch: what else must be stored is handed over with the `keep_` methods, and
  changed jobs are collected from `managed`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tiresias.core import facts as f
from tiresias.core.commands import Command, PaceRun, SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.core.plugin_failures import PluginRaised
from tiresias.core.plugins import Placer, Policy
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import JobState, Run, State
from tiresias.live.clock import Clock
from tiresias.live.errors import Unavailable
from tiresias.live.fallback import controller
from tiresias.live.managed_jobs import ManagedJob, ManagedJobs
from tiresias.live.outcome import Outcome
from tiresias.live.words import killed
from tiresias.profiles.known import Profiles
from tiresias.store import Batch, Chosen, Store, StoredJob, StoreError, SubmissionKey

log = logging.getLogger("tiresias")

NOTHING: Mapping[Any, Any] = {}
LATE_S = 1.0  # what happened so long before it is seen has happened while the manager was down


@dataclass(slots=True, frozen=True)
class Exit:
    """How a run ended, for the parts that learn from it."""

    run: Run
    job: JobState
    slots: tuple[str, ...]
    outcome: Outcome
    reports: list[Any] | None  # its first and its last progress report, each with instant and step
    failed_on: str = ""  # the node of the worker that failed first; empty: none has, or that is not known


@dataclass(slots=True, frozen=True)
class Input:
    """Facts of one instant that are handled together.

    `endings` says why jobs that end by these facts ended: reason, sentence, evidence. Of a job that does not
    end after all, nothing is kept. `exit` goes along with the RunExited fact of a run.
    """

    facts: Sequence[f.Fact]
    endings: Mapping[JobId, Mapping[str, Any]] = field(default_factory=dict)
    exit: Exit | None = None


@dataclass(slots=True, frozen=True)
class Ended:
    """A job that has ended, and what is kept of it."""

    job: JobState
    managed: ManagedJob
    ending: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Taken:
    """What became of an Input: its facts, the decisions that followed, the jobs that ended."""

    facts: Sequence[f.Fact]
    decisions: Sequence[f.Fact]
    ended: Sequence[Ended]
    exit: Exit | None


class Part(Protocol):
    """A component of the manager with a narrow task. Parts do not know each other.

    A part acts only by returning inputs, which the manager hands to the journal, and by the journal's `keep_`
    methods.
    """

    def on(self, taken: Taken) -> Iterable[Input]:
        """Learn what has happened; what follows from it at once."""

    def due(self, at: float) -> Iterable[Input]:
        """What has become due by this instant. May be a generator: each input is handled before the next one
        is asked for, and asking again gives nothing new."""

    @property
    def next_due_at(self) -> float:
        """When `due` has something to say, if nothing happens before."""


class Journal:
    """See the module."""

    def __init__(
        self, store: Store, controller: Controller, chosen: Chosen, clock: Clock, profiles: Profiles
    ):
        self.store, self.controller, self.chosen, self.clock = store, controller, chosen, clock
        self.profiles = profiles  # the models that are known; the placer has the same
        self.managed = ManagedJobs()
        self.next_job_id = store.next_job_id
        self.timer_at = INFINITY  # when the Controller wants to be woken
        self.problem = ""  # why nothing can be made durable at present; empty if nothing is wrong
        self.commands: deque[Command] = deque()  # decided, and not yet carried out
        self.inherited: set[RunId] = set()  # granted by a manager before this one, and not ended when it came
        self.overdue: set[RunId] = set()  # granted long before that could be stored: not to be started
        self._after_commit: deque[Callable[[], None]] = deque()
        self._batch = Batch()
        self._step = Step()
        self._has_failed = False  # the last commit, which is tried again

    @property
    def state(self) -> State:
        return self.controller.state

    def now(self) -> float:
        """The instant of what happens now; never before the last fact."""
        return max(self.clock.now(), self.state.at)

    def wall(self) -> float:
        """What the wall clock says, for begin times and what programs report; it may have been set."""
        return self.clock.wall()

    def check_ready(self) -> None:
        """Nothing new is accepted while what was accepted before cannot be made durable."""
        if self.problem:
            raise Unavailable(f"the manager cannot go on at present: {self.problem}")

    # --- taking facts in -------------------------------------------------------------------------------

    def take(self, given: Input) -> Taken:
        """Let the Controller handle what happened at one instant; keep what it decided for the commit."""
        step = self._step
        try:
            self.controller.handle(given.facts, step)
        except Exception:
            if self.controller.failure is None:  # otherwise all facts are applied (Controller.handle)
                raise
            log.exception("%s", self.controller.failure)
        self._batch.add(given.facts, step)
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timer_at = command.at
            else:
                self.commands.append(command)
        decisions, ended = list(step.facts), list(step.ended)
        for part in (step.facts, step.commands, step.ended):
            part.clear()
        closed = [self._close(job, given.endings.get(job.id, NOTHING)) for job in ended]
        return Taken(given.facts, decisions, closed, given.exit)

    def _close(self, job: JobState, ending: Mapping[str, Any]) -> Ended:
        """Store what is to be kept of a job that has ended."""
        managed = self.managed.remove(job.id)
        if job.phase is Phase.CANCELLED and ending.get("reason") != ReasonCode.NOT_NEEDED:
            sentence = " ".join(filter(None, ("It was cancelled.", killed(ending.get("how", "")))))
            ending = {**ending, "reason": ReasonCode.CANCELLED.value, "sentence": sentence}
        kept = {
            **ending,
            "fingerprint": managed.fingerprint,
            "progress": managed.progress,
            "ready_at": managed.ready_at,
            "resumable": job.resumable,
            "lost_s": managed.lost_s,
            "lost_gpu_s": managed.lost_s * job.gpus,
        }
        self._batch.endings[job.id] = kept
        self._batch.managed[job.id] = managed.to_json()
        return Ended(job, managed, kept)

    def new_job_id(self) -> JobId:
        id = self.next_job_id
        self.next_job_id = JobId(id + 1)
        return id

    # --- what is stored along with the facts -----------------------------------------------------------

    def keep_setting(self, name: str, value: Any) -> None:
        self._batch.settings[name] = value

    def keep_exit(self, run_id: RunId, record: Mapping[str, Any]) -> None:
        """The exit record of a run."""
        self._batch.exits[run_id] = record

    def keep_submission(self, id: JobId, body: Mapping[str, Any]) -> None:
        """What a user asked for, with the environment."""
        self._batch.submissions[id] = body

    def keep_key(self, name: str, key: SubmissionKey) -> None:
        """The jobs that an idempotency key stands for."""
        self._batch.keys[name] = key

    def after_commit(self, do: Callable[[], None]) -> None:
        """Call this once everything up to now is durable and the commands are carried out."""
        self._after_commit.append(do)

    @property
    def has_uncommitted(self) -> bool:
        """Whether the State contains facts that are not in the store yet."""
        return bool(self._batch.steps)

    # --- making it durable -----------------------------------------------------------------------------

    def commit(self) -> None:
        """Make everything durable; StoreError if that cannot be done, and everything is kept."""
        batch = self._batch
        batch.managed |= self.managed.take_changed()
        if batch.steps or batch.managed or batch.settings:
            try:
                self.store.commit(self.controller, batch)
            except PluginRaised as error:  # the memory of the policy cannot be stored; the facts can
                log.exception("%s", error)
                self.controller.set_aside(error.failure)
                self.store.commit(self.controller, batch)
            except StoreError:
                self._has_failed = True
                raise
            self._batch = Batch()
            if self._has_failed:
                self._has_failed = False
                self._find_overdue()

    def _find_overdue(self) -> None:
        """Note the runs that were granted while nothing could be stored.

        They were not started in all that time. Their jobs must not be charged for it, because it would count
        against their time limits. So they are granted anew. Runs of the manager before this one are not: that
        one may have started them, and whether they have begun is for the executor to find out.
        """
        now, runs = self.now(), self.state.runs
        starts = {command.run_id for command in self.commands if isinstance(command, StartRun)}
        own = (id for id in starts - self.inherited if id in runs)
        self.overdue |= {id for id in own if now - runs[id].granted_at > LATE_S}

    def finish_commit(self) -> None:
        """Call what was put off until after the commit."""
        while self._after_commit:
            self._after_commit.popleft()()

    def stop_again(self, run_id: RunId) -> None:
        """Command a run that is stopping to stop once more, after the next commit: its grace has changed.

        A manager that is killed before it does so commands every run that is stopping to stop again.
        """
        self.commands.append(StopRun(run_id))

    def switch(
        self,
        chosen: Chosen,
        policy: Policy,
        placer: Placer,
        *,
        keeps_memory: bool,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Let another Controller decide from now on. Nothing may wait to be committed.

        If a plug-in raises (PluginRaised), or if the choice cannot be stored (StoreError), the Controller
        before goes on; after a StoreError it has to plan anew.
        """
        before, state = self.controller, self.state
        memory, placing, wish = state.memory, state.placing, state.wish
        self.controller = controller(self.state, policy, placer, keeps_memory=keeps_memory)
        try:
            self.store.commit(self.controller, Batch(chosen=chosen, settings=dict(settings or {})))
        except (StoreError, PluginRaised):
            state.memory, state.placing = memory, placing
            state.set_wish(wish)
            self.controller = before
            if before.failure is None:
                self.controller = Controller(self.state, before.policy, before.placer)
            raise
        self.chosen = chosen
        # The slices of the new policy may be of another length.
        runs = state.runs
        self.commands += [PaceRun(id, runs[id].turn, runs[id].turns) for id in sorted(state.paced)]

    def command_again(self, commands: Sequence[Command], absent: Sequence[RunId]) -> None:
        """After a restart: carry out what was decided and not done, and stop runs that have not begun.

        A run that was granted well before this, and has not begun, is not started any more: it would be
        charged for the time between. The executor ends it if it could not find out now whether it has begun.
        Neither is a run started that was granted before the machine was booted: if it has begun, the loss of
        power may have removed what shows it.
        """
        commands = [each for each in commands if not self._is_stale(each)]
        commanded = {command.run_id for command in commands if isinstance(command, StartRun | StopRun)}
        self.inherited = set(self.state.runs)
        self.commands += commands
        self.commands += [StopRun(id) for id in absent if id not in commanded]

    def _is_stale(self, command: Command) -> bool:
        if not isinstance(command, StartRun):
            return False
        is_late = self.now() - self.state.runs[command.run_id].granted_at > LATE_S
        return is_late or self.clock.last_before_boot(command.run_id) is not None

    # --- reading what is not yet committed -------------------------------------------------------------

    def job_record(self, id: JobId) -> StoredJob | None:
        """What is known of a job that is not active; None if there never was such a job."""
        job = self._batch.ended.get(id)
        return self.store.job(id) if job is None else self._uncommitted(job)

    def uncommitted_endings(self) -> list[StoredJob]:
        """Jobs that have ended since the last commit, the latest first."""
        return [self._uncommitted(job) for job in reversed(self._batch.ended.values())]

    def _uncommitted(self, job: JobState) -> StoredJob:
        return StoredJob.of_ended(job, self._batch.endings.get(job.id))

    def has_succeeded(self, id: JobId) -> bool:
        """Whether a job that is not active ended well."""
        record = self.job_record(id)
        return record is not None and record.phase is Phase.SUCCEEDED

    def managed_job(self, id: JobId) -> ManagedJob | None:
        """Of an active job, or of an ended one that has not left the journal yet."""
        if id in self.managed:
            return self.managed[id]
        body = self._batch.managed.get(id) or self.store.managed_job(id)
        return None if body is None else ManagedJob.from_json(body)

    def submission(self, id: JobId) -> Any:
        """What the user asked for, with the environment, as stored; None if it has left the journal."""
        return self._batch.submissions.get(id) or self.store.submission(id)

    def setting(self, name: str) -> Any:
        """A value that is stored under a name; None if there is none."""
        return self._batch.settings[name] if name in self._batch.settings else self.store.setting(name, None)

    def submission_key(self, name: str) -> SubmissionKey | None:
        return self._batch.keys.get(name) or self.store.submission_key(name)
