"""Who holds which slot at one instant of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiresias.core.model import Job
from tiresias.core.state import State


@dataclass(slots=True)
class Moment:
    """The slots of a cluster at an instant; the Engine fills it in when the instant has come."""

    at: float
    holders: dict[tuple[int, int], int] = field(default_factory=dict)  # (node, slot): job
    jobs: dict[int, Job] = field(default_factory=dict)  # those that hold slots
    nodes: dict[int, int] = field(default_factory=dict)  # of each of them
    free: int = 0
    waiting: int = 0

    def look(self, state: State) -> None:
        """Note what holds after the last instant that is not later than `at`."""
        self.holders, self.jobs, self.nodes = {}, {}, {}
        for run in state.runs.values():
            if run.id not in state.ledger.held:
                continue  # on CPUs
            self.jobs[run.job_id] = state.jobs[run.job_id].job
            self.nodes[run.job_id] = len(run.allocation)
            for node, slots in run.allocation:
                for slot in range(slots.bit_length()):
                    if slots >> slot & 1:
                        self.holders[node, slot] = run.job_id
        self.free = state.ledger.free
        self.waiting = state.waiting

    def label(self, job: int) -> str:
        """A job as the legend names it."""
        told, nodes = self.jobs[job], self.nodes[job]
        model = f" {told.model}" if told.model else ""
        gpus = told.demand.gpus
        many = f"{gpus} GPUs on {nodes} node{'' if nodes == 1 else 's'}" if gpus > 1 else "1 GPU"
        return f"{told.name or job}{model}: {many}"
