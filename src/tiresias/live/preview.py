"""What would become of a job if it were submitted now: tried on the plan itself, and nothing is changed."""

from __future__ import annotations

from itertools import chain, takewhile

from tiresias.core.controller import Controller
from tiresias.core.model import Job, Phase
from tiresias.core.plan import explain
from tiresias.core.state import JobState
from tiresias.live.reports import DryRun, WhyReport


def preview(controller: Controller, job: Job, at: float) -> DryRun:
    """For a job that nothing but its turn would keep waiting."""
    state, target, policy = controller.state, controller.target, controller.policy
    ledger = state.ledger
    trial = JobState(job)
    rank, _ = policy.standing(trial, state.memory, at)
    key = (trial.priority, *rank, job.submitted_at, job.id)
    is_admitted, out = target.trial(trial, key, at)
    running = [other.id for other in out if other.run is not None and other.phase is not Phase.STOPPING]
    displaced = [int(id) for id in sorted(running)]
    if is_admitted and job.demand.gpus <= ledger.free:
        allocation = controller.placer.place(trial, ledger.open_to(job.demand), at)
        if allocation is not None:
            return DryRun(True, list(ledger.slot_names(allocation)), displaced, None)
    trial.admitted = is_admitted
    pinned = [other for other in state.jobs.values() if other.pinned]
    ahead = takewhile(lambda other: other.key < key, target)
    found = explain(trial, pinned, chain(ahead, (trial,)), state, controller.placer, strict=policy.strict)
    return DryRun(False, [], displaced, WhyReport.of(found))
