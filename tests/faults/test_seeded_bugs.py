"""Bugs that a manager could have. The fault simulation must find each of them, or it proves nothing.

Each is one thing broken in the real manager, store or executor; BUGS lists them with what they do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.model import INFINITY
from tiresias.executors.base import RunGone, RunSpec
from tiresias.live.journal import Input
from tiresias.live.manager import Manager
from tiresias.store import Batch, Loaded, StoreError, SubmissionKey
from tiresias.testing.faults.campaign import Failure, campaign
from tiresias.testing.faults.effects import MortalStore
from tiresias.testing.faults.executor import SimulatedExecutor
from tiresias.testing.faults.simulation import Parts

WITHIN_SEEDS = 100
TELLING = (0, 1, 4, 11, 16, 71)  # seeds that have found one of these: tried first, for they are quick


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


class ForgetsWhoWaitsForAnInstant(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.admission._begins.clear()


class RetriesForEver(Manager):
    def poll(self) -> None:
        for id in list(self.journal.managed):
            self.journal.managed[id] = replace(self.journal.managed[id], retries_used=0)
        super().poll()


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


class LosesKeys(MortalStore):
    def submission_key(self, key: str) -> SubmissionKey | None:
        return None


class StartsAgain(SimulatedExecutor):
    """It does not look whether the run was ever begun."""

    def start(self, spec: RunSpec) -> None:
        self._world.claims.discard(spec.run_dir)
        self._world.spawn(spec)


class ReportsTooEarly(SimulatedExecutor):
    """It says that a run is gone when its workers are told to stop."""

    def stop(self, run_id: int, grace_s: float | None = None) -> None:  # type: ignore[override]
        super().stop(run_id, grace_s)  # type: ignore[arg-type]
        if run_id in self._known:
            self._inbox.append(RunGone(run_id, stopped=True))  # type: ignore[arg-type]


BUGS = {
    "a command is carried out before the commit": Parts(manager=ActsBeforeItCommits),
    "slots are free as soon as a run is revoked": Parts(manager=FreesSlotsAtRevocation),
    "an exit is forgotten before it is stored": Parts(manager=ForgetsBeforeItCommits),
    "a run that has not begun yet counts as over": Parts(manager=TakesAbsentForGone),
    "the timer is lost in a restart": Parts(manager=LosesItsTimer),
    "who waits for an instant is forgotten in a restart": Parts(manager=ForgetsWhoWaitsForAnInstant),
    "retries are not counted": Parts(manager=RetriesForEver),
    "drained nodes are forgotten in a restart": Parts(manager=ForgetsDrainedNodes),
    "what could not be committed is dropped": Parts(manager=DropsWhatItCannotCommit),
    "idempotency keys are lost": Parts(store=LosesKeys),
    "a run is started again under the same id": Parts(executor=StartsAgain),
    "a run is reported gone while it lives": Parts(executor=ReportsTooEarly),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(bug: str, folder: Path) -> None:
    with pytest.raises(Failure) as found:
        campaign(sorted(range(WITHIN_SEEDS), key=lambda seed: seed not in TELLING), folder, BUGS[bug])
    # A bug that no longer fits the manager's code would prove nothing.
    assert not isinstance(found.value.__cause__, AttributeError | TypeError | NameError), found.value
