"""Allocators for tests: one leaves the slots to the placer, and one names slots and gives leases."""

from __future__ import annotations

from typing import Any

from tiresias.core import facts as f
from tiresias.core.holes import lowest
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


def _slots(free: list[int], gpus: int) -> f.Allocation | None:
    """So many free slots on the first nodes that have some; None: there are too few."""
    parts = []
    for node, mask in enumerate(free):
        take = min(gpus, mask.bit_count())
        if take:
            parts.append((node, lowest(mask, take)))
            gpus -= take
    return None if gpus else tuple(parts)
