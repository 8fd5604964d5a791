"""Bugs that a manager could have. The fault simulation must find each of them, or it proves nothing.

Each is one thing broken in the real manager, store or executor; BUGS lists them with what they do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core.commands import Command, PaceRun, StartRun, StopRun
from tiresias.core.facts import Allocation
from tiresias.core.model import INFINITY, RunId
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import State
from tiresias.executors import procfs, run_files
from tiresias.executors.base import RunGone, RunSpec
from tiresias.executors.exits import run_gone
from tiresias.executors.local import LocalExecutor, _Run
from tiresias.live.clock import Clock
from tiresias.live.journal import Input
from tiresias.live.manager import Manager
from tiresias.live.service import Service
from tiresias.store import Batch, Loaded, StoreError, SubmissionKey, loading, memories, rows
from tiresias.testing.faults.campaign import Failure, campaign
from tiresias.testing.faults.effects import MortalStore
from tiresias.testing.faults.kernel import SimulatedKernel
from tiresias.testing.faults.simulation import Parts
from tiresias.testing.faults.world import Gang, World

WITHIN_SEEDS = 300
# Seeds that have found one of these: tried first, for they are quick.
TELLING = (0, 1, 2, 4, 8, 9, 11, 12, 13, 15, 16, 20, 21, 25, 27, 33, 71, 72, 86, 96, 105, 177)


class ActsBeforeItCommits(Manager):
    def flush(self) -> None:
        self.settle()
        for command in self.journal.commands:
            if not isinstance(command, StartRun) or self.store.submission(command.job_id) is not None:
                self.dispatcher.carry_out_one(command)
        super().flush()


class FreesSlotsAtRevocation(Manager):
    def flush(self) -> None:
        stopped = [command.run_id for command in self.journal.commands if isinstance(command, StopRun)]
        super().flush()
        for run_id in stopped:
            if run_id in self.state.runs:
                self._handle(self.runs.exited(self.state.runs[run_id], RunGone(run_id, stopped=True)))
                self.dispatcher._forget.remove(run_id)


class ForgetsBeforeItCommits(Manager):
    def poll(self) -> None:
        for given in self.runs.poll():
            if given.exit is not None:
                self.executor.forget(given.exit.run.id)
            self._handle(given)


class TakesAbsentForGone(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        starts = [command.run_id for command in loaded.commands if isinstance(command, StartRun)]
        for run_id in starts:
            self._handle(self.runs.exited(self.state.runs[run_id], RunGone(run_id, stopped=True)))


class LosesItsTimer(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.journal.timer_at = INFINITY


class LearnsNothingOfLosses(Manager):
    def __init__(self, *parts: Any, **named: Any):
        super().__init__(*parts, **named)
        self.runs._settings = replace(self.runs._settings, judge_after_s=INFINITY)


class ForgetsWhoWaitsForAnInstant(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.admission._begins.clear()


class RetriesForEver(Manager):
    def poll(self) -> None:
        for id in list(self.journal.managed):
            self.journal.managed[id] = replace(self.journal.managed[id], retries_used=0)
        super().poll()


class BlamesJobsForTheMachine(Manager):
    """A start that the machine refuses uses a retry."""

    def poll(self) -> None:
        for given in self.runs.poll():
            if given.exit is not None and given.exit.outcome.code is ReasonCode.HOST_FAULT:
                managed = self.journal.managed[given.exit.job.id]
                self.journal.managed.change(given.exit.job.id, retries_used=managed.retries_used + 1)
            self._handle(given)


class ForgetsDrainedNodes(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        at = self.now()
        self._handle(Input([f.NodeRestored(at, node.name) for node in self.state.ledger.nodes]))


class DropsWhatItCannotCommit(Manager):
    def flush(self) -> None:
        try:
            super().flush()
        except StoreError:
            self.journal._batch = Batch()
            raise


class FollowsTheWallClockForwards(Clock):
    def now(self) -> float:
        if self._wall() > super().now():
            self._anchor = self._anchored(self._wall())
        return super().now()


class GoesByTheWallClockAfterARestart(Clock):
    def resume(self, stored: Any, last_at: float, **runs: Any) -> None:
        super().resume(None, last_at, **runs)


class LosesKeys(MortalStore):
    def submission_key(self, key: str) -> SubmissionKey | None:
        return None


class AcknowledgesBeforeItCommits(Service):
    async def committed(self) -> None:
        self._plan_flush()


class StartsAgain(LocalExecutor):
    """It does not look whether the run was ever begun."""

    def start(self, spec: RunSpec) -> None:
        run = self._runs[spec.run_id] = _Run(spec)
        for name in (run_files.CLAIM, run_files.EXIT):
            if run_files.exists(run.dir, name, self._kernel):
                self._kernel.unlink(f"{run.dir}/{name}")
        self._begin(run)


class ReportsTooEarly(LocalExecutor):
    """It says that a run is gone when its workers are told to stop."""

    def stop(self, run_id: int, grace_s: float | None = None) -> None:  # type: ignore[override]
        super().stop(run_id, grace_s)  # type: ignore[arg-type]
        if run_id in self._runs:
            self._updates.append(RunGone(run_id, stopped=True))  # type: ignore[arg-type]
            self._pipe.wake()


class LosesWhatItCannotLookAt(LocalExecutor):
    """A supervisor that ends while no descriptor is left is never looked at again."""

    def _resolve(self, run: _Run) -> None:
        try:
            self._resume(run)
        except OSError:
            self._starting.pop(run.spec.run_id, None)


class BlamesJobsForDescriptors(LocalExecutor):
    """Why a run could not begin is told without the number of the error."""

    def _void(self, run: _Run, **why: Any) -> None:
        if why.get("error"):
            why["error"] = "it could not be started"
        super()._void(run, **why)


class DoesNotWaitForRuns(LocalExecutor):
    """It reports the end of a run as soon as its supervisor was killed, and does not sweep."""

    def _sweep(self, run: _Run, error: str) -> None:
        self._finish(run, run_gone(run.spec, {"run_id": run.spec.run_id, "lost": True}, self._kernel))


class KeepsTheOldSlots(LocalExecutor):
    """A run of another size than the last one of its job works on the slots that this one had."""

    had: dict[int, RunSpec]

    def start(self, spec: RunSpec) -> None:
        had = self.__dict__.setdefault("had", {})
        last = had.setdefault(spec.job_id, spec)
        if len(last.slots) != len(spec.slots):
            spec = replace(spec, slots=last.slots)
        super().start(spec)


class PacesOnlyWhatHasBegun(LocalExecutor):
    """A run that has not begun when it is given turns never gets to know them."""

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        if run_id in self._runs and self._runs[run_id].pidfd >= 0:
            super().pace(run_id, turn, turns, slice_s)


def leaves_it_stopped(self: World, gang: Gang) -> None:
    """A run has no keeper: whoever was stopped when its supervisor was killed stays so."""


def forgets_turns_that_were_taken_away(state: State) -> list[Command]:
    return [
        each
        for each in PENDING_COMMANDS(state)
        if not isinstance(each, PaceRun) or state.runs[each.run_id].turns != 1
    ]


PENDING_COMMANDS = loading.pending_commands


def stores_no_layers(text: str) -> tuple[Allocation, int]:
    """After a restart all runs are on the first layer of their slots."""
    return SLOTS_IN(text)[0], 0


SLOTS_IN = rows.slots_in


def takes_a_failed_look_for_an_end(pid: int, start: int, kernel: Any) -> int | None:
    """`open_pidfd` as it was: no descriptor is left, so the process has ended."""
    try:
        return OPEN_PIDFD(pid, start, kernel)
    except OSError:
        return None


OPEN_PIDFD = procfs.open_pidfd


def writes_once(fd: int, data: bytes, kernel: Any) -> None:
    """A short write is taken for a whole one."""
    kernel.write(fd, data)


def does_not_sync(self: SimulatedKernel, fd: int) -> None:
    """The exit record is written without fsync."""


BUGS = {
    "a resized run keeps the old slots": Parts(executor=KeepsTheOldSlots),
    "a command is carried out before the commit": Parts(manager=ActsBeforeItCommits),
    "slots are free as soon as a run is revoked": Parts(manager=FreesSlotsAtRevocation),
    "an exit is forgotten before it is stored": Parts(manager=ForgetsBeforeItCommits),
    "a run that has not begun yet counts as over": Parts(manager=TakesAbsentForGone),
    "the timer is lost in a restart": Parts(manager=LosesItsTimer),
    "who waits for an instant is forgotten in a restart": Parts(manager=ForgetsWhoWaitsForAnInstant),
    "nothing is learned from lost work": Parts(manager=LearnsNothingOfLosses),
    "retries are not counted": Parts(manager=RetriesForEver),
    "a start that the machine refuses uses a retry": Parts(manager=BlamesJobsForTheMachine),
    "drained nodes are forgotten in a restart": Parts(manager=ForgetsDrainedNodes),
    "what could not be committed is dropped": Parts(manager=DropsWhatItCannotCommit),
    "at follows the wall clock forwards": Parts(clock=FollowsTheWallClockForwards),
    "at follows the wall clock after a restart": Parts(clock=GoesByTheWallClockAfterARestart),
    "idempotency keys are lost": Parts(store=LosesKeys),
    "a run is started again under the same id": Parts(executor=StartsAgain),
    "a run is reported gone while it lives": Parts(executor=ReportsTooEarly),
    "a request is acknowledged before the commit": Parts(service=AcknowledgesBeforeItCommits),
    "an end that cannot be looked at is forgotten": Parts(executor=LosesWhatItCannotLookAt),
    "a lack of descriptors is blamed on the job": Parts(executor=BlamesJobsForDescriptors),
    "a run without a supervisor is not ended": Parts(executor=DoesNotWaitForRuns),
    "a run that has not begun gets no turns": Parts(executor=PacesOnlyWhatHasBegun),
}
BROKEN_CALLS: dict[str, tuple[Any, str, Any]] = {
    "the exit record is not synced": (SimulatedKernel, "fsync", does_not_sync),
    "a short write is taken for a whole one": (run_files, "write_all", writes_once),
    "no descriptor left is taken for an end": (procfs, "open_pidfd", takes_a_failed_look_for_an_end),
    "a killed supervisor leaves its run stopped": (World, "keep", leaves_it_stopped),
    "turns that were taken away are forgotten": (
        loading,
        "pending_commands",
        forgets_turns_that_were_taken_away,
    ),
    "turns are stored with the wish alone": (memories, "_other_turns", lambda state: []),
    "the layers of slots are lost in a restart": (rows, "slots_in", stores_no_layers),
}


@pytest.mark.parametrize("bug", [*BUGS, *BROKEN_CALLS])
def test_a_seeded_bug_is_found(bug: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug in BROKEN_CALLS:
        monkeypatch.setattr(*BROKEN_CALLS[bug])
    with pytest.raises(Failure) as found:
        campaign(sorted(range(WITHIN_SEEDS), key=lambda seed: seed not in TELLING), folder, BUGS.get(bug))
    # A bug that no longer fits the manager's code would prove nothing.
    assert not isinstance(found.value.__cause__, AttributeError | TypeError | NameError), found.value
