"""Why a job is where it is, and the plain definition of the target.

`plain_target` is the definition that the incremental target must equal. It serves tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiresias.core import overflow
from tiresias.core.entries import Entry, JobEntry
from tiresias.core.model import JobId, Phase
from tiresias.core.plugins import Placer
from tiresias.core.state import JobState, State


def plain_target(ranked: Iterable[Entry], room: int, *, strict: bool = False) -> set[JobId]:
    """The ids that a walk in rank order admits into so much room."""
    chosen: set[JobId] = set()
    for entry in ranked:
        if entry.gpus <= room:
            room -= entry.gpus
            chosen.add(entry.id)
        elif strict:
            break
    return chosen


@dataclass(slots=True)
class Reason:
    """The one dominant reason, and its evidence."""

    code: str
    text: str
    ahead_jobs: int = 0
    ahead_gpus: int = 0
    free_gpus: int = 0
    best_hole: int = 0


def gpus_of(job: JobState | Entry) -> str:
    return "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"


def explain(
    entry: JobEntry,
    pinned: Sequence[JobEntry],
    ranked: Iterable[JobEntry],
    state: State,
    placer: Placer,
    *,
    strict: bool = False,
) -> Reason:
    """The first reason that applies, in strict precedence. Planning itself does no work for it."""
    job, ledger = entry.job, state.ledger
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        if job.gpu_run is None:
            return Reason("RunningOnCPUs", overflow.where(job, state))
        return Reason("Running", _where(job, placer))
    if job.phase is Phase.STOPPING:
        return Reason("Stopping", "it has been asked to stop and is saving its work")
    if job.gpus > (most := ledger.most(job.job.demand)):
        if most < ledger.gpus:
            return Reason("Impossible", f"needs {gpus_of(job)} of a kind of which there are {most}")
        return Reason("Impossible", f"needs {gpus_of(job)}, the cluster has {ledger.gpus}; ask for fewer")
    if job.phase is Phase.HELD:
        return Reason("Held", "it is on hold; release it")
    if job.deferred:
        return Reason(job.deferred, "it waits for something other than its rank")
    free, hole = ledger.free, ledger.best_hole()
    if entry.admitted and job.gpus <= free:
        return _refused(job, state, placer)
    if entry.admitted:
        text = f"its turn has come; waiting for slots to be handed over ({free} free, needs {job.gpus})"
        return Reason("WaitingForVictimsToExit", text, free_gpus=free, best_hole=hole)
    jobs, gpus = len(pinned), sum(other.gpus for other in pinned)
    for other in ranked:
        if other is entry:
            break
        if other.admitted:
            jobs += 1
            gpus += other.gpus
        elif strict:
            text = f"job {other.id} ({gpus_of(other)}) is ahead and does not fit; no job may pass it"
            return Reason("BehindBlockedHead", text, jobs, gpus, free, hole)
    left = max(ledger.gpus - gpus, 0)
    ahead = "1 job ahead holds or gets" if jobs == 1 else f"{jobs} jobs ahead hold or get"
    text = f"{ahead} {gpus} of {ledger.gpus} GPUs; {left} left, needs {job.gpus}"
    return Reason("BehindHigherRank", text, jobs, gpus, free, hole)


def _where(job: JobState, placer: Placer) -> str:
    """That it runs, and why on these nodes."""
    nodes = 0 if job.run is None else len(job.run.allocation)
    verdict = placer.verdict(job) if job.gpus > 1 else ""
    if not verdict:
        return "it is running"
    return f"it is running on {'1 node' if nodes == 1 else f'{nodes} nodes'}: {verdict}"


def _refused(job: JobState, state: State, placer: Placer) -> Reason:
    """Why a job of the target is not started although enough slots are free."""
    ledger = state.ledger
    holes = ledger.open_to(job.job.demand)
    free, hole = holes.free, holes.best_hole()
    if job.gpus > free:
        text = f"its turn has come; waiting for {gpus_of(job)} of its kind ({free} free)"
        return Reason("WaitingForItsKind", text, free_gpus=free, best_hole=hole)
    at = state.at
    since = state.refused_since.get(job.id, at)
    if placer.place(job, holes, at, since) is None:
        text = placer.refusal(job, holes, at, since)
        return Reason("Fragmented", text, free_gpus=free, best_hole=hole)
    text = f"its turn has come; the free slots are kept for jobs ahead ({free} free, needs {job.gpus})"
    return Reason("KeptForJobsAhead", text, free_gpus=free, best_hole=hole)
