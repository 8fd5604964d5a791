"""Drains with a deadline: what still runs on a node or slot then is stopped, and its jobs queue again."""

from __future__ import annotations

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, Phase
from tiresias.live.journal import Input, Journal, Taken

DEADLINES = "drain_deadlines"  # the setting: by node or slot, the instant


class Drains:
    """The part that keeps the deadlines. They outlive the manager."""

    def __init__(self, journal: Journal):
        self._journal = journal
        self._deadlines: dict[str, float] = journal.store.setting(DEADLINES, {})

    @property
    def next_due_at(self) -> float:
        return min(self._deadlines.values(), default=INFINITY)

    def set(self, what: str, deadline_at: float | None) -> None:
        """At this instant nothing may run there any more; None: whatever runs there may go on."""
        if deadline_at is None:
            if self._deadlines.pop(what, None) is None:
                return
        else:
            self._deadlines[what] = deadline_at
        self._journal.keep_setting(DEADLINES, dict(self._deadlines))

    def on(self, taken: Taken) -> list[Input]:
        return []

    def due(self, at: float) -> list[Input]:
        over = [what for what, deadline_at in self._deadlines.items() if deadline_at <= at]
        if not over:
            return []
        stopped: list[f.Fact] = []
        state = self._journal.state
        for run in list(state.runs.values()):
            job = state.jobs[run.job_id]
            slots = set(state.slot_names(run.allocation))
            places = slots | {slot.rpartition(":")[0] for slot in slots}
            if job.phase is not Phase.STOPPING and not places.isdisjoint(over):
                stopped.append(f.JobRequeued(at, job.id))
        for what in over:
            self.set(what, None)
        return [Input(stopped)] if stopped else []
