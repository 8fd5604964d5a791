"""The speed of runs that share slots: by turns, or packed.

Rules: a run with one of k turns goes at 1/k of the speed that it has alone, less what the change of turns
costs. A run without turns is paused, and does not go at all. Runs of one slot that have the same turn, or one
of which always has it, are packed: they slow each other down as profiles/utilisation.py says, and the worst
slot of a gang counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.core.ledger import Ledger
from tiresias.core.model import RunId
from tiresias.core.plugins import SpeedModel
from tiresias.core.state import Run, State
from tiresias.core.wish import slots_of
from tiresias.profiles.utilisation import busy, slowdown

TURN_COST = 0.02
"""The part of its time that a run loses to changes of turns: at most 2 % in the Gandiva paper, at 60 s."""


class Sharing:
    """The SpeedModel of slots that carry several runs; `others` gives the speeds of runs that are alone."""

    def __init__(self, state: State, others: SpeedModel | None = None):
        self._state = state
        self._others = others
        self._alone: dict[RunId, float] = {}  # the speed of each run if it were alone on its slots
        self._slots: dict[RunId, list[tuple[int, int]]] = {}
        self._holders: dict[tuple[int, int], dict[RunId, None]] = {}

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        changed = list(changed)
        found = {} if self._others is None else dict(self._others.speeds(changed, ledger))
        touched: dict[RunId, None] = {}
        for run_id in changed:
            if run_id not in ledger.allocations:
                self._leave(run_id, touched)
            elif run_id not in self._slots:
                self._join(run_id, ledger, touched)
            else:
                touched[run_id] = None
                for slot in self._slots[run_id]:
                    if len(self._holders[slot]) > 1:
                        touched |= self._holders[slot]
        for run_id, speed in found.items():
            if run_id in self._slots:
                self._alone[run_id] = speed
                touched[run_id] = None
        return found | {run_id: self._speed(run_id) for run_id in touched}

    def _join(self, run_id: RunId, ledger: Ledger, touched: dict[RunId, None]) -> None:
        self._alone[run_id] = 1.0
        self._slots[run_id] = slots = list(slots_of(ledger.allocations[run_id]))
        touched[run_id] = None
        for slot in slots:
            holders = self._holders.setdefault(slot, {})
            holders[run_id] = None
            if len(holders) > 1:
                touched |= holders

    def _leave(self, run_id: RunId, touched: dict[RunId, None]) -> None:
        if run_id not in self._slots:
            return
        del self._alone[run_id]
        touched.pop(run_id, None)
        for slot in self._slots.pop(run_id):
            holders = self._holders[slot]
            del holders[run_id]
            if holders:
                touched |= holders

    def _speed(self, run_id: RunId) -> float:
        run, alone = self._state.runs[run_id], self._alone[run_id]
        if not run.turns:
            return 0.0
        worst = 1.0
        for slot in self._slots[run_id]:
            holders = self._holders[slot]
            if len(holders) > 1:
                worst = max(worst, self._slowdown(run, holders))
        part = 1.0 if run.turns == 1 else (1 - TURN_COST) / run.turns
        return alone * part / worst

    def _slowdown(self, run: Run, holders: Iterable[RunId]) -> float:
        """How much the runs that work on a slot at the same time slow each other down."""
        runs, jobs = self._state.runs, self._state.jobs
        parts = [
            busy(jobs[other.job_id].model)
            for other in (runs[id] for id in holders)
            if other is run or _meet(run, other)
        ]
        return slowdown(parts) if len(parts) > 1 else 1.0


def _meet(run: Run, other: Run) -> bool:
    """Whether two runs of one slot work at the same time."""
    if not other.turns:
        return False
    return run.turns == 1 or other.turns == 1 or (run.turn, run.turns) == (other.turn, other.turns)
