"""Phases, reasons and progress of jobs as text for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tiresias.cli.live.times import short
from tiresias.cli.units import NOTHING

ACTIVE = ("PENDING", "HELD", "STARTING", "RUNNING", "PAUSED", "STOPPING", "SUSPENDED")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
PHASES = ACTIVE + ENDED
COLOURS = {
    "PENDING": "yellow",
    "HELD": "magenta",
    "STARTING": "cyan",
    "RUNNING": "green",
    "PAUSED": "cyan",
    "STOPPING": "cyan",
    "SUSPENDED": "yellow",
    "SUCCEEDED": "dim",
    "FAILED": "red",
    "CANCELLED": "dim",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    """The text without control characters, which could change the terminal."""
    return _CONTROL.sub("?", str(text))


def brief(value: object) -> str:
    """A value of an option, cut off if it is long: some are whole files."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def reason(job: Mapping[str, Any]) -> str:
    """When a running job will be done, or why another one does not run; and what work it has lost."""
    eta_s = (job["progress"] or {}).get("eta_s") if job["phase"] == "RUNNING" else None
    if job["phase"] in ("RUNNING", "STARTING", "SUCCEEDED"):
        words = "" if eta_s is None else f"done in {short(eta_s)}"
    else:
        words = job["reason_text"]
        if job["reason"] == "UnknownFailure" and job["exit_code"]:
            words += f": exit code {job['exit_code']}"
    return plain("; ".join(filter(None, (words, job.get("loss", "")))))


def progress(job: Mapping[str, Any]) -> str:
    """The progress that the training has reported."""
    reported = job["progress"] or {}
    if reported.get("fraction") is not None:
        return f"{reported['fraction']:.0%}"
    return NOTHING if reported.get("step") is None else f"step {reported['step']:,}"


def priority_and_queue(job: Mapping[str, Any]) -> str:
    """The priority class and the queue, with which the rank begins."""
    queue = "" if job["queue"] is None else f"Q{job['queue']}"
    return queue if job["priority"] == "normal" else " ".join(filter(None, [job["priority"], queue]))


def size(job: Mapping[str, Any]) -> str:
    """The GPUs of a job; of an elastic one also its range."""
    gpus = str(job["gpus"])
    return gpus if job.get("max_gpus") is None else f"{gpus} of {job['min_gpus']}..{job['max_gpus']}"
