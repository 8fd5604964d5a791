"""Carries out what is durable: commands go to the executor."""

from __future__ import annotations

from collections import deque

from tiresias.core.commands import Command, PaceRun, StartRun, StopRun
from tiresias.core.model import INFINITY, JobId, RunId
from tiresias.core.state import JobState
from tiresias.executors.base import Executor, RunSpec
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import Journal
from tiresias.live.machine import Machine
from tiresias.live.settings import Settings
from tiresias.live.submission import Submission

SLICE_S = 60.0  # of a policy that does not say
HOST_FAULT = "no run can be started on this machine: "  # reasons that are about this begin so


class Dispatcher:
    """Called after each commit. A command that fails is kept for the next time."""

    def __init__(
        self, journal: Journal, executor: Executor, machine: Machine, paths: HomePaths, settings: Settings
    ):
        self._journal, self._executor, self._machine, self._paths = journal, executor, machine, paths
        self._settings = settings
        self._forget: deque[RunId] = deque()
        self.problem = ""  # why a command could not be carried out; empty if nothing is wrong
        self.failed_at = INFINITY  # when that was

    def forget(self, run_id: RunId) -> None:
        """Let the executor forget this run once its exit is durable."""
        self._forget.append(run_id)

    def carry_out(self) -> None:
        """Everything that the journal has decided so far; all of it must be durable."""
        commands = self._journal.commands
        failed: list[Command] = []
        self.problem, self.failed_at = "", INFINITY
        for _ in range(len(commands)):
            try:
                self.carry_out_one(commands[0])
            except OSError as error:  # no descriptor is left, for example
                self.problem, self.failed_at = f"{HOST_FAULT}{error}", self._journal.now()
                failed.append(commands[0])
            commands.popleft()
        commands.extend(failed)
        while self._forget:
            self._executor.forget(self._forget.popleft())

    def carry_out_one(self, command: Command) -> None:
        state = self._journal.state
        if isinstance(command, StartRun | StopRun) and command.run_id in self._journal.overdue:
            return  # it is about to be granted anew
        if isinstance(command, StartRun):
            job = state.jobs.get(command.job_id)
            if job is not None and job.run is not None and job.run.id == command.run_id:
                self._executor.start(self.spec(job))
        elif isinstance(command, StopRun):
            run = state.runs.get(command.run_id)
            if run is not None:
                self._executor.stop(run.id, self._grace_s(run.job_id))
        elif isinstance(command, PaceRun):
            run = state.runs.get(command.run_id)
            if run is not None:  # as it is now, which may be later than the command
                slice_s = getattr(self._journal.controller.policy, "slice_s", SLICE_S)
                self._executor.pace(run.id, run.turn, run.turns, slice_s)

    def _grace_s(self, id: JobId) -> float:
        """The grace of the job, which may have been submitted under a higher maximum than the present one."""
        return min(self._journal.managed[id].spec.grace_s, self._settings.most_grace_s)

    def spec(self, job: JobState) -> RunSpec:
        """All that the executor needs for the run that the job has now."""
        run = job.run
        assert run is not None, ("no run", job.id)
        body = self._journal.store.submission(job.id)
        assert body is not None, ("an active job without its submission", job.id)
        submission = Submission.from_json(body)
        managed = self._journal.managed[job.id]
        slots = self._machine.slots(self._journal.state.slot_names(run.allocation))
        return RunSpec(
            run.id,
            job.id,
            job.runs,
            submission.command,
            submission.cwd,
            submission.env,
            slots,
            self._paths.run(job.id, job.runs),
            submission.checkpoint_dir or str(self._paths.checkpoint(job.id)),
            has_own_checkpoints=not submission.checkpoint_dir,
            job_name=job.job.name,
            workers=submission.workers,
            grace_s=self._grace_s(job.id),
            resumes=job.runs > 1,
            preflight=managed.preflight_of is not None,
            array_index=submission.array_index,
            launcher=submission.launcher,
            identity=submission.identity,
            journal=self._journal.store.journal_id_of(run.id),
            auto=submission.auto or self._settings.auto,
            log_bytes=int(self._settings.most_log_bytes),
            reserve_bytes=int(self._settings.reserve_bytes),
            master_addr=self._machine.addresses.get(slots[0].node, "") if slots else "",
            terminal=submission.pty,
            idle_limit_s=submission.idle_limit_s,
            cpus=submission.cpus,
            memory_bytes=submission.memory_bytes,
            job_key=f"{job.id}-{round(job.submitted_at * 1000):x}",
        )
