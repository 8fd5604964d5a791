"""What the manager adds to the core's reason: evidence that only it has, and the next step for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from tiresias.core.entries import JobEntry
from tiresias.core.model import INFINITY
from tiresias.core.reasons import ReasonCode, text_of
from tiresias.core.state import JobState
from tiresias.live.answers import Explanation
from tiresias.live.eta import Estimate
from tiresias.live.journal import NOTHING, Journal

SHOWN = 5  # jobs ahead that are named
NEXT_STEPS: dict[str, str] = {
    ReasonCode.STOPPING: "nothing to do: it has its grace period to save and exit",
    ReasonCode.IMPOSSIBLE: "`tir cancel {id}`, and ask for fewer GPUs",
    ReasonCode.OUT_OF_SERVICE: "`tir cancel {id}` and ask for fewer GPUs, or wait until they are back",
    ReasonCode.HOST_FAULT: "tell an admin: `tir status` names the problem; runs are started when it is gone",
    ReasonCode.HELD: "`tir release {id}`",
    ReasonCode.DEPENDENCY: "wait until these jobs have ended",
    ReasonCode.BEGIN_TIME: "wait",
    ReasonCode.QUOTA: "wait until one of these jobs ends, or ask an admin for a higher limit",
    ReasonCode.ARRAY_LIMIT: "wait until one of these jobs ends",
    ReasonCode.INTERACTIVE_LIMIT: "wait until another interactive job ends, or submit it without --pty and"
    " --interactive",
    ReasonCode.BACKOFF: "`tir logs {id}`",
    ReasonCode.WITHOUT_GPUS: "wait until one of them ends: `tir ls` shows them with 0 GPUs",
    ReasonCode.VICTIMS: "nothing to do: it starts as soon as the preempted runs have exited",
    ReasonCode.FRAGMENTED: "nothing to do: slots are kept for it as they become free",
    ReasonCode.ITS_KIND: "wait: slots are granted in the order of the ranks",
    ReasonCode.KEPT: "wait: slots are granted in the order of the ranks",
    ReasonCode.HIGHER_RANK: "wait, or see `tir ls` for the jobs ahead; fewer GPUs may fit sooner",
    ReasonCode.BLOCKED_HEAD: "wait, or see `tir ls` for the jobs ahead",
}


def why(
    job: JobState,
    journal: Journal,
    out_of_service: Mapping[str, str],
    gpu_limit_of: Callable[[str], int | None],
    start_problem: str = "",
    silent: Mapping[str, str] = NOTHING,
) -> Explanation:
    """For an active job. `start_problem` says why the machine cannot start runs, `silent` which nodes do not
    answer or cannot be used.
    """
    found = journal.controller.why(job.id)
    assert found is not None
    if start_problem and found.code == ReasonCode.OUT_OF_SERVICE:
        code = ReasonCode.HOST_FAULT
        found = replace(found, code=code, text=f"{text_of(code)}: {start_problem}")
    report = Explanation.of(found)
    report.next_step = NEXT_STEPS.get(found.code, "").format(id=job.id)
    if found.code == ReasonCode.STOPPING:
        report.text += _why_it_stops(job)
    elif found.code == ReasonCode.OUT_OF_SERVICE:
        out = ", ".join(f"{what} ({reason})" for what, reason in sorted({**out_of_service, **silent}.items()))
        report.text += f"; out of service: {out}"
        if out_of_service:
            report.next_step += f" (for admins: `tir undrain {min(out_of_service)}`)"
    elif found.code in (ReasonCode.HIGHER_RANK, ReasonCode.BLOCKED_HEAD):
        report.ahead = [other.id for other in islice(_ahead(journal, job), SHOWN)]
    elif job.deferred and found.code == job.deferred:
        _explain_deferral(job, journal, gpu_limit_of, report)
    if job.gpus and not job.deferred and not job.on_hold and not job.cancelled:
        report.learned = journal.controller.policy.explain(job, journal.state.memory, journal.now())
    return report


def in_words(found: Estimate) -> str:
    """The estimate as a sentence for people."""
    if found.unknown:
        return f"when it starts cannot be known: {found.unknown}"
    assert found.p50_s is not None
    assert found.p90_s is not None
    of = f"estimated from {found.history:,} ended jobs"
    return (
        f"it starts within {_rounded(found.p50_s)} with a chance of 50 %, within {_rounded(found.p90_s)} with"
        f" 90 % ({of}; jobs that are submitted later may go before it)"
    )


def _rounded(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"


def _ahead(journal: Journal, job: JobState) -> Iterator[JobEntry]:
    yield from journal.controller.pinned()
    for other in journal.controller.target:
        if other.id == job.id:
            return
        if other.admitted:
            yield other


def _why_it_stops(job: JobState) -> str:
    if job.cancelled:
        return "; it was cancelled"
    return "; it will be on hold" if job.on_hold else "; it will run again when its rank allows"


def _explain_deferral(
    job: JobState, journal: Journal, gpu_limit_of: Callable[[str], int | None], report: Explanation
) -> None:
    """Add what the manager knows about the deferral."""
    managed = journal.managed[job.id]
    spec = managed.spec
    evidence = ""
    if job.deferred == ReasonCode.DEPENDENCY:
        unmet = [other for other in spec.awaited if other in journal.state.jobs]
        evidence = ", ".join(f"job {other} ({journal.state.jobs[other].phase})" for other in unmet)
    elif job.deferred == ReasonCode.BEGIN_TIME:
        evidence = f"it begins in {max(0.0, (spec.begin_at or 0.0) - journal.wall()):.0f} s at the earliest"
    elif job.deferred == ReasonCode.PREFLIGHT:
        evidence = f"job {managed.preflight_job} tries its command on one GPU first"
        report.next_step = f"`tir logs {managed.preflight_job}`"
    elif job.deferred == ReasonCode.QUOTA:
        limit = gpu_limit_of(spec.user)
        evidence = f"{spec.user} may use {limit} GPUs at once, and other jobs of this user come first"
    elif job.deferred == ReasonCode.ARRAY_LIMIT:
        evidence = f"at most {spec.array_limit} jobs of the array may run at once"
    elif job.deferred == ReasonCode.BACKOFF and job.deferred_until != INFINITY:
        left_s = max(0.0, job.deferred_until - journal.now())
        retry = f"retry {managed.retries_used} of {spec.retries}"
        evidence = f"{managed.failure.get('sentence', '')} It runs again in {left_s:.0f} s ({retry})"
    if evidence:
        report.text += f": {evidence}"
