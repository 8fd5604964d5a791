"""Why a job is where it is, and the target worked out the plain way.

`plain_target` is the definition that the incremental target must equal; it serves tests and explanations
and is never on the hot path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiresias.core.ledger import Ledger
from tiresias.core.model import JobId, Phase, Room
from tiresias.core.state import JobState


def plain_target(ranked: Iterable[JobState], room: Room, *, strict: bool = False) -> set[JobId]:
    """Whom a walk in rank order admits into the room."""
    chosen: set[JobId] = set()
    for job in ranked:
        if room.fits(job.job.demand):
            room = room.take(job.job.demand)
            chosen.add(job.id)
        elif strict:
            break
    return chosen


@dataclass(slots=True)
class Reason:
    """The one dominant reason, its evidence, and what the user can do about it."""

    code: str
    text: str
    ahead_jobs: int = 0
    ahead_gpus: int = 0
    free_gpus: int = 0
    best_hole: int = 0


def gpus_of(job: JobState) -> str:
    return "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"


def explain(
    job: JobState,
    pinned: Sequence[JobState],
    ranked: Iterable[JobState],
    ledger: Ledger,
    *,
    strict: bool = False,
) -> Reason:
    """Why this job is not running, in strict precedence; costs nothing until it is asked."""
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return Reason("Running", "it is running")
    if job.phase is Phase.STOPPING:
        return Reason("Stopping", "it was told to stop and is saving its work")
    if job.gpus > ledger.gpus:
        return Reason("Impossible", f"needs {gpus_of(job)}, the cluster has {ledger.gpus}; ask for fewer")
    if job.phase is Phase.HELD:
        return Reason("Held", "it is held; release it")
    if job.deferred:
        return Reason(job.deferred, "it waits for something other than its turn")
    free, hole = ledger.free, ledger.best_hole()
    if job.admitted:
        text = f"its turn has come; waiting for slots to be handed over ({free} free, needs {job.gpus})"
        return Reason("WaitingForVictimsToExit", text, free_gpus=free, best_hole=hole)
    jobs, gpus = len(pinned), sum(other.gpus for other in pinned)
    for other in ranked:
        if other is job:
            break
        if other.admitted:
            jobs += 1
            gpus += other.gpus
        elif strict:
            text = f"job {other.id} ({gpus_of(other)}) is ahead and does not fit; nobody may pass it"
            return Reason("BehindBlockedHead", text, jobs, gpus, free, hole)
    left = max(ledger.gpus - gpus, 0)
    ahead = "1 job ahead holds or gets" if jobs == 1 else f"{jobs} jobs ahead hold or get"
    text = f"{ahead} {gpus} of {ledger.gpus} GPUs; {left} left, needs {job.gpus}"
    return Reason("BehindHigherRank", text, jobs, gpus, free, hole)
