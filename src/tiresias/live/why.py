"""Why a job is where it is: the one dominant reason, its evidence, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from tiresias.core.controller import Controller
from tiresias.core.entries import JobEntry
from tiresias.core.model import INFINITY, Phase
from tiresias.core.state import JobState
from tiresias.live import admission
from tiresias.live.journal import Journal
from tiresias.live.reports import WhyReport

SHOWN = 5  # jobs ahead that are named


def quick_reason(job: JobState, controller: Controller) -> str:
    """The code alone, without looking at anybody else."""
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return "Running" if job.phase is Phase.RUNNING else "Starting"
    if job.phase is Phase.STOPPING:
        return "Stopping"
    if job.gpus > controller.state.ledger.gpus:
        return "Impossible"
    if job.on_hold:
        return "Held"
    if job.deferred:
        return job.deferred
    if controller.entries[job.id].admitted:
        is_refused = job.id in controller.state.refused_since
        return "Fragmented" if is_refused else "WaitingForVictimsToExit"
    return "BehindHigherRank"


def why(
    job: JobState,
    journal: Journal,
    out_of_service: Mapping[str, str],
    gpu_limit_of: Callable[[str], int | None],
) -> WhyReport:
    """For an active job."""
    state = journal.state
    found = journal.controller.why(job.id)
    assert found is not None
    report = WhyReport.of(found)
    if job.phase is Phase.STOPPING:
        _stopping(report, job)
    elif found.code == "Impossible":
        out = ", ".join(f"{what} ({why})" for what, why in sorted(out_of_service.items()))
        if out and job.gpus <= sum(node.gpus for node in state.ledger.nodes):
            report.code = "OutOfService"
            report.text = f"needs {job.gpus} GPUs, {state.ledger.gpus} are in service; out of service: {out}"
        report.next_step = f"`tir undrain` what is fit again, or `tir cancel {job.id}` and ask for fewer"
    elif found.code == "Held":
        report.next_step = f"`tir release {job.id}`"
    elif job.deferred:
        _deferred(job, journal, gpu_limit_of, report)
    elif found.code == "WaitingForVictimsToExit":
        report.next_step = "nothing to do: it starts as soon as the runs before it have saved and ended"
    elif found.code == "Fragmented":
        report.next_step = "nothing to do: its place is kept free as runs there end"
    elif found.code in ("WaitingForItsKind", "KeptForJobsAhead"):
        report.next_step = "wait: slots are handed over in the order of ranks"
    elif found.code in ("BehindHigherRank", "BehindBlockedHead"):
        report.ahead = [other.id for other in islice(_ahead(journal, job), SHOWN)]
        report.next_step = f"wait, or see who is ahead: `tir ls`; fewer GPUs than {job.gpus} may fit sooner"
    return report


def _ahead(journal: Journal, job: JobState) -> Iterator[JobEntry]:
    yield from journal.controller.pinned()
    for other in journal.controller.target:
        if other.id == job.id:
            return
        if other.admitted:
            yield other


def _stopping(report: WhyReport, job: JobState) -> None:
    if job.cancelled:
        report.text = "it was cancelled and has its grace to save and end"
    elif job.on_hold:
        report.text = "it is to be held and has its grace to save and end"
    else:
        report.text = "it was told to stop and saves its work; it will be run again in its turn"
    report.next_step = "nothing to do"


def _deferred(
    job: JobState, journal: Journal, gpu_limit_of: Callable[[str], int | None], report: WhyReport
) -> None:
    managed = journal.managed[job.id]
    spec = managed.spec
    if job.deferred == admission.DEPENDENCY:
        unmet = [other for other in spec.after if other in journal.state.jobs]
        names = ", ".join(f"job {other} ({journal.state.jobs[other].phase})" for other in unmet)
        report.text = f"it comes after {names}"
        report.next_step = "wait until they have succeeded"
    elif job.deferred == admission.BEGIN:
        left_s = max(0.0, (spec.begin_at or 0.0) - journal.now())
        report.text = f"it begins in {left_s:.0f} s at the earliest, as you asked"
        report.next_step = "wait"
    elif job.deferred == admission.PREFLIGHT:
        report.text = f"its command is tried out on one GPU first, by job {managed.preflight_job}"
        report.next_step = f"`tir logs {managed.preflight_job}`"
    elif job.deferred == admission.QUOTA:
        limit = gpu_limit_of(spec.user)
        report.text = f"{spec.user} may use {limit} GPUs at once, and others of their jobs come first"
        report.next_step = "wait until one of them ends, or ask an admin for a higher limit"
    elif job.deferred == admission.ARRAY:
        report.text = f"at most {spec.array_limit} jobs of its array may run at once"
        report.next_step = "wait"
    elif job.deferred == admission.BACKOFF and job.deferred_until != INFINITY:
        left_s = max(0.0, job.deferred_until - journal.now())
        words = managed.failure.get("sentence", "its last run failed")
        report.text = (
            f"{words} Tried again in {left_s:.0f} s (retry {managed.retries_used} of {spec.retries})"
        )
        report.next_step = f"`tir logs {job.id}`"
