"""Which job holds which slot at one instant of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiresias.core.model import Job
from tiresias.core.state import State


@dataclass(slots=True)
class Moment:
    """The slots of a cluster at the instant `at`; the Engine fills it in when virtual time reaches it."""

    at: float
    holders: dict[tuple[int, int], int] = field(default_factory=dict)  # (node, slot): job
    jobs: dict[int, Job] = field(default_factory=dict)  # the jobs that hold slots
    nodes: dict[int, int] = field(default_factory=dict)  # by job: on how many nodes it is
    free: int = 0
    waiting: int = 0

    def capture(self, state: State) -> None:
        """Store which job holds which slot; the State must be that after the last instant up to `at`."""
        self.holders, self.jobs, self.nodes = {}, {}, {}
        for run in state.runs.values():
            if not state.ledger.allocations.get(run.id):
                continue  # on CPUs, or without GPUs
            self.jobs[run.job_id] = state.jobs[run.job_id].job
            self.nodes[run.job_id] = len(run.allocation)
            for node, slots in run.allocation:
                for slot in range(slots.bit_length()):
                    if slots >> slot & 1:
                        self.holders[node, slot] = run.job_id
        self.free = state.ledger.free
        self.waiting = state.waiting

    def label(self, job: int) -> str:
        """The text for a job in the legend."""
        shown, nodes = self.jobs[job], self.nodes[job]
        model = f" {shown.model}" if shown.model else ""
        gpus = shown.demand.gpus
        many = f"{gpus} GPUs on {nodes} node{'' if nodes == 1 else 's'}" if gpus > 1 else "1 GPU"
        return f"{shown.name or job}{model}: {many}"
