"""Phrases that several answers share."""

from __future__ import annotations

from tiresias.core.facts import Revocation, Rule

MINUTE_S, HOUR_S = 60.0, 3600.0


def lasting(seconds: float) -> str:
    """A duration as people say it: 8 s, 12 min, 3.5 h."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def work(seconds: float, gpus: int) -> str:
    """What runs of a job took: 12 min x 8 GPUs."""
    if not gpus:
        return lasting(seconds)
    return f"{lasting(seconds)} x {'1 GPU' if gpus == 1 else f'{gpus} GPUs'}"


def sized(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def began_anew(lost_s: float, gpus: int, times: int = 1) -> str:
    often = "" if times < 2 else f" {times} times"
    return f"began anew{often}: {work(lost_s, gpus)} lost"


def not_stopped(grace_s: float) -> str:
    """Of a run that was killed because its grace period was over."""
    return f"did not stop within {lasting(grace_s)}; killed" if grace_s else "killed at once"


def killed(how: str) -> str:
    """The same as a sentence; `how` is what `not_stopped` returned, or empty."""
    if not how:
        return ""
    return f"It {how.replace('; killed', ' and was killed')}." if ";" in how else f"It was {how}."


def revoked(why: Revocation) -> str:
    """Why a plan stopped a run, to follow `preempted`."""
    queues = ""
    if why.from_queue is not None and why.to_queue is not None:
        fell = f"it fell from Q{why.from_queue} to Q{why.to_queue}"
        queues = fell if why.from_queue != why.to_queue else f"it was in Q{why.to_queue}"
    other = f"for job {why.job_id}"
    match why.rule:
        case Rule.PRIORITY:
            return f"{other}, which has a higher priority class"
        case Rule.DEMOTED:
            return f"{other}: {queues}"
        case Rule.OUTRANKED:
            return f"{other}, which has a better rank{f'; {queues}' if queues else ''}"
        case Rule.MIGRATION:
            return f"to migrate, which makes a hole {other}"
        case Rule.GPUS_FREE:
            return "to run on GPUs, which are free for it"
        case Rule.WISH:
            return "because the allocator gives its slots to other jobs, or other slots to it"
        case Rule.RESIZE:
            return f"to go on with {sized(why.gpus or 0)}, as the allocator wishes"
        case Rule.CAPACITY:
            return "because fewer GPUs are left for jobs that may be preempted"
