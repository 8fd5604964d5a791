"""Allocators for tests: one leaves slots to the placer, one names them and gives leases, one gives elastic
jobs their sizes, one shares slots."""

from __future__ import annotations

from typing import Any

from tiresias.core import facts as f
from tiresias.core.holes import lowest
from tiresias.core.model import INFINITY, JobId
from tiresias.core.plugins import Allocator, policies
from tiresias.core.state import JobState
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish

LEASE_S = 120.0


@policies.register
class InTurn(Allocator):
    """Tenants in turn, those with the fewest finished jobs first, each with its jobs in order."""

    name = "in-turn"
    learns = frozenset({f.RunExited})

    def new_memory(self) -> dict[str, int]:
        return {}

    def learn(self, memory: dict[str, int], fact: Any, job: JobState | None) -> bool:
        if job is not None and fact.cause is f.ExitCause.FINISHED:
            memory[job.user] = memory.get(job.user, 0) + 1
        return False

    def allot(self, view: AllotView, memory: dict[str, int], at: float) -> Wish:
        wish, room = Wish(), view.room
        order = [((job.gpu_run is None, memory.get(job.user, 0), job.id), job) for job in view.jobs()]
        for _, job in sorted(order, key=lambda pair: pair[0]):
            if job.gpus <= room:
                wish.give(job)
                room -= job.gpus
        return wish

    def reason(self, job: JobState, view: AllotView, memory: dict[str, int]) -> str:
        return f"{memory.get(job.user, 0)} jobs of its user have finished"


@policies.register
class Leased(Allocator):
    """In order of submission, on named slots, each run with a lease of two minutes."""

    name = "leased"
    names_slots = True

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        wish = Wish()
        free = list(view.ledger.offered)
        for job in view.taken():
            for node, mask in job.gpu_run.allocation if job.gpu_run is not None else ():
                free[node] &= ~mask
        for job in view.jobs():
            run = job.gpu_run
            slots = _slots(free, job.gpus) if run is None else run.allocation
            if slots is None or any(free[node] & mask != mask for node, mask in slots):
                continue
            for node, mask in slots:
                free[node] &= ~mask
            known = view.wish.get(job.id)
            if known is not None and known.slots == slots:
                wish.jobs[job.id] = known
            else:
                wish.give(job, slots, until=at + LEASE_S)
        return wish


@policies.register
class Sized(Allocator):
    """Every job that fits at its smallest size, in order of submission; what is left goes to them in turn.

    So elastic jobs shrink when others come, and grow when others end.
    """

    name = "sized"
    sizes = True

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        wish, room = Wish(), view.room
        sizes: dict[JobId, int] = {}
        # Not by who has a run: a job that is being resized would change its place, and its size again.
        jobs = sorted(view.jobs(), key=lambda job: (job.id not in view.wish, job.id))
        for job in jobs:
            least = job.job.demand.least
            if least <= room:
                sizes[job.id] = least
                room -= least
        while room:
            grown = [job for job in jobs if sizes.get(job.id, INFINITY) < job.job.demand.most]
            for job in grown[:room]:
                sizes[job.id] += 1
            room -= min(room, len(grown))
            if not grown:
                break
        for job in jobs:
            if job.id in sizes:
                wish.give(job, gpus=sizes[job.id])
        return wish

    def reason(self, job: JobState, view: AllotView, memory: Any) -> str:
        """Why it has its size, or none."""
        return f"{len(view.wish)} jobs share {view.room} GPUs"


@policies.register
class Stacked(Allocator):
    """Puts jobs on three layers of the slots in order of submission; those of one node take turns.

    Of each node the jobs of the highest priority go first: the others are paused. Every third job has the
    same turn, so that some are packed.
    """

    name = "stacked"
    names_slots = True
    layers = 3

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        wish = Wish()
        free = [list(view.ledger.offered) for _ in range(self.layers)]
        chosen: dict[JobId, tuple[JobState, f.Allocation, int]] = {}
        for job in view.taken():
            run, known = job.gpu_run, view.wish.get(job.id)
            for node, mask in run.allocation if run is not None else ():
                assert run is not None
                for floor in free if run.layer >= self.layers else [free[run.layer]]:  # of another policy
                    floor[node] &= ~mask
            if run is not None and known is not None and known.slots is not None:
                chosen[job.id] = job, known.slots, known.layer  # only its turns may change
        for job in sorted(view.jobs(), key=lambda job: (job.gpu_run is None, view.key(job))):
            run = job.gpu_run
            where = None if run is None or run.layer >= self.layers else (run.allocation, run.layer)
            if where is None or not _fits(free[where[1]], where[0]):
                where = next(
                    (
                        (slots, layer)
                        for layer in range(self.layers)
                        if (slots := _slots(free[layer], job.gpus))
                    ),
                    None,
                )
            if where is not None:
                for node, mask in where[0]:
                    free[where[1]][node] &= ~mask
                chosen[job.id] = job, *where
        for job, slots, layer in chosen.values():
            mates = [other for other, theirs, _ in chosen.values() if _touch(slots, theirs)]
            best = min(mate.priority for mate in mates)
            rows = sorted({mate.id % 3 for mate in mates if mate.priority == best})
            if job.priority > best:
                wish.give(job, slots, layer=layer, turns=0)
            else:
                wish.give(job, slots, layer=layer, turn=rows.index(job.id % 3), turns=len(rows))
        return wish


def _fits(free: list[int], slots: f.Allocation) -> bool:
    return all(free[node] & mask == mask for node, mask in slots)


def _touch(ours: f.Allocation, theirs: f.Allocation) -> bool:
    """Whether the two are on a node together."""
    return bool({node for node, _ in ours} & {node for node, _ in theirs})


def _slots(free: list[int], gpus: int) -> f.Allocation | None:
    """So many free slots on the first nodes that have some; None: there are too few."""
    parts = []
    for node, mask in enumerate(free):
        take = min(gpus, mask.bit_count())
        if take:
            parts.append((node, lowest(mask, take)))
            gpus -= take
    return None if gpus else tuple(parts)
