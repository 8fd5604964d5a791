"""What would become of a job if it were submitted now: tried on the plan itself, and nothing is changed."""

from __future__ import annotations

from itertools import chain, takewhile

from tiresias.core.controller import Controller
from tiresias.core.entries import JobEntry
from tiresias.core.model import Job, Phase
from tiresias.core.plugins import Placer
from tiresias.core.reasons import explain
from tiresias.core.state import JobState
from tiresias.live.answers import DryRun, Explanation


def preview(controller: Controller, job: Job, at: float, placer: Placer | None = None) -> DryRun:
    """For a job that nothing but its rank would keep waiting.

    `placer` places it; by default the one of the controller, which may not know the model of the job.
    """
    placer = placer or controller.placer
    state, target, policy = controller.state, controller.target, controller.policy
    ledger = state.ledger
    trial = JobEntry(JobState(job))
    if not job.demand.gpus:
        return _without_gpus(controller, trial)
    rank, _ = policy.standing(trial.job, state.memory, at, False)
    key = controller.key_of(trial.job, rank)
    is_admitted, out = target.trial(trial, key, at)
    displaced = [other.job for other in out if other.job.gpu_run is not None]
    stopped = sorted(int(other.id) for other in displaced if other.phase is not Phase.STOPPING)
    if is_admitted and job.demand.gpus <= ledger.free:
        allocation = placer.place(trial.job, ledger.open_to(job.demand), at, at)
        if allocation is not None:
            return DryRun(True, list(ledger.slot_names(allocation)), stopped, None)
    trial.admitted = is_admitted
    ahead = takewhile(lambda other: other.key is not None and other.key < key, target)
    ranked = chain(ahead, (trial,))
    found = explain(trial, controller.pinned(), ranked, state, placer, strict=policy.strict)
    return DryRun(False, [], stopped, Explanation.of(found))


def _without_gpus(controller: Controller, trial: JobEntry) -> DryRun:
    kept = controller.without_gpus
    if not kept.waiting and len(kept.running) < kept.most:
        return DryRun(True, [], [], None)
    found = explain(trial, (), (), controller.state, controller.placer)
    return DryRun(False, [], [], Explanation.of(found))
