"""Bugs that a manager could have. The fault simulation must find each of them, or it proves nothing.

Each is one thing broken in the real manager, store or executor; BUGS lists them with what they do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core import facts as f
from tiresias.core.commands import Command, StartRun, StopRun
from tiresias.core.model import INFINITY
from tiresias.core.state import Run
from tiresias.executors.base import RunGone, RunSpec
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
        for command in self._commands:
            if not isinstance(command, StartRun) or self.store.submission(command.job_id) is not None:
                self._carry_out(command)
        super().flush()


class FreesSlotsAtRevocation(Manager):
    def _carry_out(self, command: Command) -> None:
        super()._carry_out(command)
        if isinstance(command, StopRun) and command.run_id in self.state.runs:
            self._gone(self.state.runs[command.run_id], RunGone(command.run_id, stopped=True))
            self._forget.remove(command.run_id)


class ForgetsBeforeItCommits(Manager):
    def _gone(self, run: Run, gone: RunGone) -> None:
        self.executor.forget(run.id)
        super()._gone(run, gone)


class TakesAbsentForGone(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        starts = [command.run_id for command in loaded.commands if isinstance(command, StartRun)]
        for run_id in starts:
            self._gone(self.state.runs[run_id], RunGone(run_id, stopped=True))


class LosesItsTimer(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.timer_at = INFINITY


class ForgetsWhoWaitsForAnInstant(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.gates._begins.clear()


class RetriesForEver(Manager):
    def _gone(self, run: Run, gone: RunGone) -> None:
        self.notes[run.job_id].retries_used = 0
        super()._gone(run, gone)


class ForgetsDrainedNodes(Manager):
    def recover(self, loaded: Loaded) -> None:
        super().recover(loaded)
        self.apply(*(f.NodeRestored(self.now(), node.name) for node in self.state.ledger.nodes))


class DropsWhatItCannotCommit(Manager):
    def flush(self) -> None:
        try:
            super().flush()
        except StoreError:
            self._batch = Batch()
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
