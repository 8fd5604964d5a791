"""Jobs that have ended, as answers: a row of the list, and a row of a trace. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tiresias.core.model import Demand
from tiresias.core.reasons import text_of
from tiresias.live.answers import JobSummary, ProgressInfo
from tiresias.live.losses import losses
from tiresias.live.submission import Caller
from tiresias.live.words import began_anew, work
from tiresias.store import RunSpan, StoredJob

HISTORY = tuple(each.name for each in fields(JobSummary) if each.name not in ("progress", "reason_text"))


def summary_of(record: StoredJob, caller: Caller) -> JobSummary:
    """A row of the list. Only the owner and admins see its metrics."""
    kept = record.ending or {}
    progress = None if kept.get("progress") is None else ProgressInfo(**kept["progress"])
    if progress is not None and not caller.may_touch(record.job.user):
        progress.metrics = {}
    return JobSummary(
        record.id,
        record.job.name,
        record.job.user,
        record.phase.value,
        kept.get("reason", ""),
        record.job.demand.gpus,
        record.runs,
        record.preemptions,
        record.service_gpu_s,
        record.job.submitted_at,
        record.first_started_at,
        record.ended_at,
        kept.get("exit_code"),
        progress,
        record.job.tenant,
        record.job.priority.value,
        since_at=record.ended_at,
        reason_text="; ".join(filter(None, (text_of(kept.get("reason", "")), kept.get("how", "")))),
        resumable=kept.get("resumable"),
        lost_gpu_s=kept.get("lost_gpu_s", 0.0),
        loss=loss_of(kept.get("lost_s", 0.0), record.job.demand.gpus, kept.get("resumable")),
        min_gpus=range_of(record.job.demand)[0],
        max_gpus=range_of(record.job.demand)[1],
    )


def range_of(demand: Demand) -> tuple[int | None, int | None]:
    """The smallest and the largest size of an elastic job."""
    return (demand.least, demand.most) if demand.is_elastic else (None, None)


def loss_of(lost_s: float, gpus: int, resumable: bool | None) -> str:
    """What a job has lost, as a phrase; empty if that is next to nothing."""
    if lost_s < 1.0:
        return ""
    return f"{work(lost_s, gpus)} lost" if resumable else began_anew(lost_s, gpus)


def trace_row(record: StoredJob, runs: Sequence[RunSpan], caller: Caller) -> dict[str, Any]:
    """A row of a trace; `runs` are all that have exited. Only the owner and admins see the name.

    `duration_s` is for how long it would have run without interruptions (losses.py).
    """
    ended = summary_of(record, caller)
    row = {name: getattr(ended, name) for name in HISTORY}
    lost = losses(runs)
    lost_s = max(lost.lost_s, (record.ending or {}).get("lost_s") or 0.0)
    row |= {
        "model": record.job.model,
        "group": record.job.group,
        "preemptible": record.job.preemptible,
        "ready_at": (record.ending or {}).get("ready_at") or record.job.submitted_at,
        "executed_s": record.executed_s,
        "duration_s": max(0.0, record.executed_s - lost_s),
        "interruptions": lost.interruptions,
        "preemption_cost_s": lost.lost_s / lost.interruptions if lost.interruptions else None,
        "startup_s": lost.startup_s,
    }
    if not caller.may_touch(record.job.user):
        row["name"] = ""
    return row
