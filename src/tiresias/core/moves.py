"""Runs that move to make a hole: when a gang waits for a place although enough slots are free.

A run may move if it can be stopped, its job stays in the target, and the placer has a place for it that the
waiting gang does not want. A move costs a preemption, so it must pay: the GPU-seconds lost by the movers
must be less than those that the waiting gang would lose. How long it would wait is not known; a run is
expected to go on for about as long as it has gone on.
"""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, Phase
from tiresias.core.plugins import Placer
from tiresias.core.state import JobState, State

STOPPING = Phase.STOPPING
COST_S = 60.0  # of a preemption, where a job does not tell


def moves_for(
    job: JobState, claim: Allocation, waits_s: float, state: State, placer: Placer, at: float
) -> list[JobState]:
    """Whose runs should move away for a refused job with this claim; none where it does not pay.

    `waits_s` is how much longer it would wait for its place at least.
    """
    ledger = state.ledger
    lacking, nodes, held = job.gpus, set(), 0
    for node, slots in claim:
        lacking -= slots.bit_count()
        held += ledger.offered[node].bit_count() - ledger.free_counts[node]
        nodes.add(node)
    if held < lacking:
        return []  # a node of its place has nothing free yet
    movers: list[JobState] = []
    for other, slots in _in_the_way(nodes, state, placer.moves if held == lacking else None):
        if lacking <= 0:
            break
        lacking -= slots
        if other.phase is not STOPPING:
            movers.append(other)
    if lacking > 0 or len(movers) > placer.moves or not movers:
        return []
    cost_gpu_s = sum([other.gpus * _cost_s(other) for other in movers])
    if cost_gpu_s >= job.gpus * min(waits_s, _left_s(movers, at)):
        return []
    if not _may_have_places(movers, nodes, ledger) or not _have_places(movers, nodes, ledger, placer, at):
        return []
    return movers


def _in_the_way(nodes: set[int], state: State, most: int | None) -> list[tuple[JobState, int]]:
    """Who holds how many slots of these nodes and goes or may move: who goes first, then the smallest.

    With `most` all must go; nobody is named if one may not move, or more than so many would have to.
    """
    runs, jobs, holders = state.runs, state.jobs, state.ledger.holders
    found = []
    moving = 0
    for run_id in holders(*nodes) if len(nodes) == 1 else set().union(*map(holders, nodes)):
        run = runs[run_id]
        job = jobs[run.job_id]
        saves = job.phase is STOPPING
        if not saves:
            moving += 1
            may_move = job.admitted and not job.pinned and run.started_at != INFINITY
            if most is not None and (not may_move or moving > most):
                return []
            if not may_move:
                continue
        slots = job.gpus
        if len(run.allocation) > 1:
            slots = sum([some.bit_count() for node, some in run.allocation if node in nodes])
        found.append((not saves, job.gpus, -run.granted_at, job.id, job, slots))
    found.sort()
    return [(job, slots) for _, _, _, _, job, slots in found]


def _left_s(movers: list[JobState], at: float) -> float:
    """How long the place would be taken if nobody moved."""
    return at - min([other.run.granted_at for other in movers if other.run is not None])


def _cost_s(job: JobState) -> float:
    return COST_S if job.job.preemption_cost_s is None else job.job.preemption_cost_s


def _may_have_places(movers: list[JobState], nodes: set[int], ledger: Ledger) -> bool:
    """Whether there is a hole elsewhere for the largest of them that is on one node: cheaper than to try."""
    largest = max([other.gpus for other in movers if other.run and len(other.run.allocation) == 1], default=0)
    taken = 0
    for node in nodes:
        taken |= 1 << node
    return not largest or any(some & ~taken for some in ledger.buckets[largest:])


def _have_places(movers: list[JobState], nodes: set[int], ledger: Ledger, placer: Placer, at: float) -> bool:
    """Whether each of them has a place elsewhere, on no more nodes than now."""
    hidden: list[Allocation] = [tuple([(node, ledger.free_slots[node]) for node in nodes])]
    ledger.hide(hidden[0])
    good = True
    for other in movers:
        assert other.run is not None
        place = placer.place(other, ledger.open_to(other.job.demand), at)
        if place is None or len(place) > len(other.run.allocation):
            good = False
            break
        ledger.hide(place)
        hidden.append(place)
    for slots in hidden:
        ledger.show(slots)
    return good
