"""Migrations: which runs should start again on other slots, to make a hole for a gang.

They are looked for when the placer refuses a gang although enough slots are free. A run may migrate if it
can be stopped, its job stays in the target, and the placer has slots for it that the waiting gang does not
want. A migration costs a preemption, so it must pay: the GPU-seconds lost by the migrating runs must be less
than those that the waiting gang would lose. How long it would wait is not known; a run is expected to go on
for about as long as it has gone on.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.core.entries import JobEntry
from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.plugins import Placer
from tiresias.core.state import JobState, State

STOPPING = Phase.STOPPING
COST_S = 60.0  # of a preemption, where the job does not say

Entries = Mapping[JobId, JobEntry]


def migrations_for(
    job: JobState,
    claim: Allocation,
    waits_s: float,
    entries: Entries,
    state: State,
    placer: Placer,
    at: float,
) -> list[JobEntry]:
    """The jobs whose runs should migrate for a refused job with this claim; none where it does not pay.

    `waits_s` is how much longer the refused job would wait at least.
    """
    ledger = state.ledger
    movers: list[JobEntry] = []
    leaving: set[JobId] = set()
    for part, lacking in _parts(job, claim):
        lacking -= sum([slots.bit_count() for _, slots in part])
        nodes = {node for node, _ in part}
        taken = sum([ledger.offered[node].bit_count() - ledger.free_counts[node] for node in nodes])
        if taken < lacking:
            return []  # a node that it needs has nothing free yet
        most = placer.migrations if taken == lacking else None
        for other, slots in _in_the_way(nodes, entries, state, most) if lacking > 0 else ():
            if lacking <= 0:
                break
            lacking -= slots
            if other.job.phase is not STOPPING and other.id not in leaving:
                leaving.add(other.id)
                movers.append(other)
        if lacking > 0:
            return []
    if len(movers) > placer.migrations or not movers:
        return []
    nodes = {node for node, _ in claim}
    cost_gpu_s = sum([other.gpus * _cost_s(other.job) for other in movers])
    if cost_gpu_s >= job.gpus * min(waits_s, _left_s(movers, at)):
        return []
    if not _may_fit_elsewhere(movers, nodes, ledger):
        return []
    return movers if _fit_elsewhere(movers, nodes, ledger, placer, at) else []


def _parts(job: JobState, claim: Allocation) -> list[tuple[Allocation, int]]:
    """Of what is claimed, the slots that may stand for each other, and how many of them the job needs.

    Each node has to hold a piece of its own if the gang has stated on how many nodes it must be. Its claim
    has the pieces in order, but for nodes of which nothing is free yet.
    """
    demand = job.job.demand
    if demand.nodes is None:
        return [(claim, job.gpus)]
    if len(claim) < demand.nodes:
        return [((), job.gpus)]
    return [((part,), piece) for part, piece in zip(claim, demand.pieces, strict=False)]


def _in_the_way(
    nodes: set[int], entries: Entries, state: State, most: int | None
) -> list[tuple[JobEntry, int]]:
    """The jobs on these nodes that stop or may migrate, each with its number of slots there: those that stop
    first, then the smallest.

    With `most`, all runs there must leave: the answer is empty if one of them may not migrate, or if more
    than so many would have to.
    """
    runs, holders = state.runs, state.ledger.holders
    found = []
    migrating = 0
    for run_id in holders(*nodes) if len(nodes) == 1 else set().union(*map(holders, nodes)):
        run = runs[run_id]
        entry = entries[run.job_id]
        job = entry.job
        saves = job.phase is STOPPING
        if not saves:
            migrating += 1
            loses_work = job.resumable is False
            may_migrate = (
                entry.admitted and not entry.pinned and not loses_work and run.started_at != INFINITY
            )
            if most is not None and (not may_migrate or migrating > most):
                return []
            if not may_migrate:
                continue
        slots = job.gpus
        if len(run.allocation) > 1:
            slots = sum([some.bit_count() for node, some in run.allocation if node in nodes])
        found.append((not saves, job.gpus, -run.granted_at, job.id, entry, slots))
    found.sort()
    return [(entry, slots) for _, _, _, _, entry, slots in found]


def _left_s(movers: list[JobEntry], at: float) -> float:
    """How long the slots would stay taken without a migration."""
    return at - min([other.job.run.granted_at for other in movers if other.job.run is not None])


def _cost_s(job: JobState) -> float:
    return COST_S if job.job.preemption_cost_s is None else job.job.preemption_cost_s


def _may_fit_elsewhere(movers: list[JobEntry], nodes: set[int], ledger: Ledger) -> bool:
    """Whether there is a hole elsewhere for the largest of them that is on one node: cheaper than to try."""
    jobs = [other.job for other in movers]
    largest = max([job.gpus for job in jobs if job.run and len(job.run.allocation) == 1], default=0)
    taken = 0
    for node in nodes:
        taken |= 1 << node
    return not largest or any(some & ~taken for some in ledger.buckets[largest:])


def _fit_elsewhere(
    movers: list[JobEntry], nodes: set[int], ledger: Ledger, placer: Placer, at: float
) -> bool:
    """Whether the placer has slots elsewhere for each of them, on no more nodes than now."""
    hidden: list[Allocation] = [tuple([(node, ledger.free_slots[node]) for node in nodes])]
    ledger.hide(hidden[0])
    try:
        for other in movers:
            job = other.job
            assert job.run is not None
            slots = placer.place(job, ledger.open_to(job.job.demand), at, at)
            if slots is None or len(slots) > len(job.run.allocation):
                return False
            ledger.hide(slots)
            hidden.append(slots)
        return True
    finally:
        for slots in hidden:
            ledger.show(slots)
