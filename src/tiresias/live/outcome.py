"""From how a run ended to what becomes of its job. Pure: decides, does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiresias.core.facts import ExitCause
from tiresias.executors.base import RunGone
from tiresias.executors.causes import Cause, Kind, classify
from tiresias.live.notes import Note
from tiresias.live.settings import Settings

CODES = {  # what `ls` shows as the reason of a job that has ended
    Kind.FINISHED: "Finished",
    Kind.PREEMPTED: "Stopped",
    Kind.NOT_STARTED: "NotStarted",
    Kind.LOST: "Lost",
    Kind.GPU_MEMORY: "OutOfGpuMemory",
    Kind.HOST_MEMORY: "OutOfHostMemory",
    Kind.DISK: "DiskFull",
    Kind.CODE: "CodeError",
    Kind.IMPORT: "ImportError",
    Kind.FILE: "FileError",
    Kind.NETWORK: "Network",
    Kind.GPU: "GpuOrDriver",
    Kind.UNKNOWN: "UnknownFailure",
}


@dataclass(slots=True)
class Outcome:
    """What to do with the job: its exit's cause, the pause before the next run, and why in words."""

    exit: ExitCause
    code: str
    sentence: str
    evidence: str = ""
    backoff_s: float = 0.0
    is_deterministic: bool = False  # the same command would fail in the same way again
    blames_gpu: bool = False


def decide(
    gone: RunGone, note: Note, lasted_s: float, *, said_finished: bool, settings: Settings
) -> Outcome:
    """Counts on in the note what is counted there."""
    untold = bool(gone.exits) and all(each.code == 0 and not each.was_signalled for each in gone.exits)
    if said_finished or untold:
        note.quick_requeues = 0
        return Outcome(ExitCause.FINISHED, "Finished", "It finished.")
    if gone.stopped and note.is_tried:
        return Outcome(ExitCause.FINISHED, "Finished", "It ran well for long enough.")
    if gone.stopped and note.is_expired:
        limit = note.light.time_limit_s or 0.0
        sentence = f"It reached its time limit of {limit:g} s; `tir set ID time=…` gives it more."
        return Outcome(ExitCause.FAILED, "TimeLimit", sentence)
    cause = classify(gone)
    if cause.kind is Kind.PREEMPTED:
        return _again(gone, note, lasted_s, cause, settings)
    return _failed(note, cause, settings)


def _again(gone: RunGone, note: Note, lasted_s: float, cause: Cause, settings: Settings) -> Outcome:
    if gone.stopped or lasted_s > settings.quick_s:
        note.quick_requeues = 0
        return Outcome(ExitCause.PREEMPTED, "Stopped", cause.sentence)
    note.quick_requeues += 1
    if note.quick_requeues > settings.most_quick_requeues:
        times = note.quick_requeues
        sentence = f"It asked to be run again {times} times in a row within {settings.quick_s:g} s."
        return Outcome(ExitCause.FAILED, "RequeueLoop", sentence)
    pause_s = backoff_s(note.quick_requeues, settings) if note.quick_requeues > 1 else 0.0
    return Outcome(ExitCause.PREEMPTED, "Stopped", cause.sentence, backoff_s=pause_s)


def _failed(note: Note, cause: Cause, settings: Settings) -> Outcome:
    code = CODES[cause.kind]
    if cause.kind is Kind.LOST and note.lost_runs < settings.most_lost_runs:
        note.lost_runs += 1  # not its fault: no retry is used up
        pause_s = backoff_s(note.lost_runs, settings) if note.lost_runs > 1 else 0.0
        return Outcome(ExitCause.RETRIED, code, cause.sentence, backoff_s=pause_s)
    if cause.retry_can_cure and note.retries_used < note.light.retries:
        note.retries_used += 1
        pause_s = backoff_s(note.retries_used, settings)
        return Outcome(
            ExitCause.RETRIED, code, cause.sentence, cause.evidence, pause_s, blames_gpu=cause.blames_gpu
        )
    sentence = cause.sentence
    if not cause.retry_can_cure:
        sentence += " Another run would end the same way, so it is not tried again."
    elif note.light.retries:
        sentence += f" All {note.light.retries} retries are used up."
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


def exit_record(gone: RunGone, outcome: Outcome) -> dict[str, Any]:
    """What is kept of a run's exit, for ever."""
    return {
        "code": gone.status,
        "reason": outcome.code,
        "sentence": outcome.sentence,
        "evidence": outcome.evidence,
        "workers": [[each.code, each.signal, each.was_signalled] for each in gone.exits],
        "killed": gone.killed,
        "escaped": gone.escaped,
        "lost": gone.lost,
    }
