"""Jobs without GPUs: CPU work beside the GPUs, such as the summary of a training.

A job that asks for 0 GPUs holds no slots: the allocation of its runs is empty. Rules:
- No policy and no placer ever sees it: it has no rank, is in no target, and is never preempted.
- Such jobs start in the order of priority class, submission and id.
- At most `most` of them run at once, which follows from the nodes in service that answer: one per two cores
  of a node, so that trainings keep cores for reading their data, and at least one. Of a node whose cores are
  not known, one per GPU. A run that stops counts until its exit; none is stopped because the number has
  become smaller.
"""

from __future__ import annotations

from tiresias.core.lifecycle import ENDED
from tiresias.core.model import JobId, Node
from tiresias.core.state import JobState, State, is_schedulable

CORES_EACH = 2


def most(state: State) -> int:
    """How many jobs without GPUs may run at once on the nodes that are in service and answer."""
    nodes = enumerate(state.ledger.nodes)
    return sum(_share(node) for position, node in nodes if _is_usable(state, position, node))


def _is_usable(state: State, position: int, node: Node) -> bool:
    return state.ledger_of(node.name).is_usable(position)


def _share(node: Node) -> int:
    return max(1, node.cpus // CORES_EACH if node.cpus else node.gpus)


class WithoutGpus:
    """The active jobs without GPUs of one Controller: which of them run, and which may start."""

    def __init__(self, state: State):
        self.running: set[JobId] = set()
        self.waiting: dict[JobId, JobState] = {}
        self.most = most(state)

    def update(self, job: JobState) -> None:
        """Bring this in line with what the job has become."""
        if job.run is not None:
            self.running.add(job.id)
            self.waiting.pop(job.id, None)
            return
        self.running.discard(job.id)
        if not job.gpus and job.phase not in ENDED and is_schedulable(job):
            self.waiting[job.id] = job
        else:
            self.waiting.pop(job.id, None)

    def startable(self) -> list[JobState]:
        """The jobs that start now, in order."""
        room = self.most - len(self.running)
        if room <= 0:
            return []
        return sorted(self.waiting.values(), key=_order)[:room]


def _order(job: JobState) -> tuple[int, float, JobId]:
    return job.priority, job.submitted_at, job.id


def where(job: JobState, state: State) -> str:
    """How many run and how many are before it, as a clause for users."""
    others = [other for other in state.jobs.values() if not other.gpus]
    running = sum(other.run is not None for other in others)
    ahead = sum(
        other.run is None and is_schedulable(other) and _order(other) < _order(job) for other in others
    )
    allowed = most(state)
    if not allowed:
        return "no node is in service"
    before = "1 job waits" if ahead == 1 else f"{ahead} jobs wait"
    return f"{running} of at most {allowed} run, and {before} before it"
