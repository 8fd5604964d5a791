"""From how a run ended to what becomes of its job. Pure: it changes nothing, and returns what must change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tiresias.core.facts import ExitCause
from tiresias.core.reasons import ReasonCode
from tiresias.executors.base import RunGone
from tiresias.executors.causes import Cause, Kind, classify
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.settings import Settings
from tiresias.live.words import lasting

CODES = {  # by the kind of the cause
    Kind.FINISHED: ReasonCode.FINISHED,
    Kind.PREEMPTED: ReasonCode.STOPPED,
    Kind.NOT_STARTED: ReasonCode.NOT_STARTED,
    Kind.HOST: ReasonCode.HOST_FAULT,
    Kind.LOST: ReasonCode.LOST,
    Kind.GPU_MEMORY: ReasonCode.GPU_MEMORY,
    Kind.HOST_MEMORY: ReasonCode.HOST_MEMORY,
    Kind.MEMORY_LIMIT: ReasonCode.MEMORY_LIMIT,
    Kind.KILLED: ReasonCode.KILLED,
    Kind.DISK: ReasonCode.DISK_FULL,
    Kind.CODE: ReasonCode.CODE_ERROR,
    Kind.IMPORT: ReasonCode.IMPORT_ERROR,
    Kind.FILE: ReasonCode.FILE_ERROR,
    Kind.NETWORK: ReasonCode.NETWORK,
    Kind.GPU: ReasonCode.GPU_OR_DRIVER,
    Kind.UNKNOWN: ReasonCode.UNKNOWN_FAILURE,
}


@dataclass(slots=True)
class Outcome:
    """What to do with the job: its exit's cause, the pause before the next run, and why in words."""

    exit: ExitCause
    code: ReasonCode
    sentence: str
    evidence: str = ""
    backoff_s: float = 0.0
    is_deterministic: bool = False  # the same command would fail in the same way again
    blames_gpu: bool = False
    counts: dict[str, int] = field(default_factory=dict)  # fields of the ManagedJob that change


def decide(
    gone: RunGone, job: ManagedJob, lasted_s: float, *, said_finished: bool, settings: Settings
) -> Outcome:
    """What becomes of a job whose run is gone.

    `lasted_s` is for how long the run worked; `said_finished`, whether the training reported that it is done.
    """
    was_untouched = bool(gone.exits) and all(each.code == 0 and not each.was_signalled for each in gone.exits)
    if said_finished or was_untouched:
        return Outcome(ExitCause.FINISHED, ReasonCode.FINISHED, "It finished.", counts={"quick_requeues": 0})
    if gone.stopped and job.is_tried:
        return Outcome(ExitCause.FINISHED, ReasonCode.FINISHED, "It ran well for long enough.")
    if gone.stopped and job.is_expired:
        limit = job.spec.time_limit_s or 0.0
        sentence = f"It reached its time limit of {lasting(limit)}."
        return Outcome(ExitCause.FAILED, ReasonCode.TIME_LIMIT, sentence)
    if gone.idle:
        sentence = f"Nobody used it for {lasting(job.spec.idle_limit_s or 0.0)}, so it was ended."
        return Outcome(ExitCause.FAILED, ReasonCode.IDLE, sentence)
    cause = classify(gone)
    if cause.kind is Kind.PREEMPTED:
        return _again(gone, job, lasted_s, cause, settings)
    if cause.kind is Kind.LOST and gone.never_begun:  # its nodes were not there: it may be tried for ever
        return Outcome(ExitCause.RETRIED, CODES[cause.kind], cause.sentence, backoff_s=settings.backoff_s)
    if job.spec.is_interactive and cause.kind is not Kind.HOST:
        return _left(gone, job, cause)
    return _failed(job, cause, settings)


def _left(gone: RunGone, job: ManagedJob, cause: Cause) -> Outcome:
    """A person was there and has seen what happened: it is not tried again, and proves nothing of a command.

    What stands on a terminal is not searched for a cause: an error there may be long past.
    """
    if job.spec.pty and gone.status and gone.exits and not gone.lost and not gone.error:
        sentence = f"Its program ended with exit code {gone.status}."
        return Outcome(ExitCause.FAILED, ReasonCode.UNKNOWN_FAILURE, sentence)
    return Outcome(ExitCause.FAILED, CODES[cause.kind], cause.sentence, cause.evidence)


def _again(gone: RunGone, job: ManagedJob, lasted_s: float, cause: Cause, settings: Settings) -> Outcome:
    """The run was stopped, or asked to be run again."""
    again = Outcome(ExitCause.PREEMPTED, ReasonCode.STOPPED, cause.sentence)
    if gone.stopped or lasted_s > settings.quick_s:
        return replace(again, counts={"quick_requeues": 0})
    times = job.quick_requeues + 1
    counts = {"quick_requeues": times}
    if times > settings.most_quick_requeues:
        sentence = f"It asked to be run again {times} times in a row within {settings.quick_s:g} s."
        return Outcome(ExitCause.FAILED, ReasonCode.REQUEUE_LOOP, sentence, counts=counts)
    return replace(again, backoff_s=backoff_s(times, settings) if times > 1 else 0.0, counts=counts)


def _failed(job: ManagedJob, cause: Cause, settings: Settings) -> Outcome:
    code = CODES[cause.kind]
    if cause.kind is Kind.HOST:  # not the job's fault either, and starting pauses for all jobs
        return Outcome(ExitCause.RETRIED, code, cause.sentence)
    if cause.kind is Kind.LOST and job.lost_runs < settings.most_lost_runs:
        lost = job.lost_runs + 1  # not the job's fault: no retry is used up
        pause_s = backoff_s(lost, settings) if lost > 1 else 0.0
        counts = {"lost_runs": lost}
        return Outcome(ExitCause.RETRIED, code, cause.sentence, backoff_s=pause_s, counts=counts)
    if cause.retry_can_cure and job.retries_used < job.spec.retries:
        nth = job.retries_used + 1
        return Outcome(
            ExitCause.RETRIED,
            code,
            cause.sentence,
            cause.evidence,
            backoff_s(nth, settings),
            blames_gpu=cause.blames_gpu,
            counts={"retries_used": nth},
        )
    sentence = cause.sentence
    if not cause.retry_can_cure:
        sentence += " Another run would end the same way, so it is not tried again."
    elif job.spec.retries:
        sentence += f" All {job.spec.retries} retries are used up."
    return Outcome(
        ExitCause.FAILED,
        code,
        sentence,
        cause.evidence,
        is_deterministic=not cause.retry_can_cure,
        blames_gpu=cause.blames_gpu,
    )


def backoff_s(nth: int, settings: Settings) -> float:
    """The pause before the nth retry."""
    return float(min(settings.backoff_s * 2 ** (nth - 1), settings.most_backoff_s))


def exit_record(gone: RunGone, outcome: Outcome, grace_s: float) -> dict[str, Any]:
    """What is kept of a run's exit, for ever. `grace_s` is the grace period that it had at its end."""
    return {
        "code": gone.status,
        "reason": outcome.code.value,
        "sentence": outcome.sentence,
        "evidence": outcome.evidence,
        "workers": [[each.code, each.signal, each.was_signalled] for each in gone.exits],
        "killed": gone.killed,
        "killed_at_once": gone.killed and not grace_s,
        "escaped": gone.escaped,
        "lost": gone.lost,
    }
