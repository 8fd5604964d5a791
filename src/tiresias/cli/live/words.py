"""Phases and reasons as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tiresias.cli.live.times import short
from tiresias.cli.units import NOTHING

ACTIVE = ("PENDING", "HELD", "STARTING", "RUNNING", "STOPPING", "SUSPENDED")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
PHASES = ACTIVE + ENDED
COLOURS = {
    "PENDING": "yellow",
    "HELD": "magenta",
    "STARTING": "cyan",
    "RUNNING": "green",
    "STOPPING": "cyan",
    "SUSPENDED": "yellow",
    "SUCCEEDED": "dim",
    "FAILED": "red",
    "CANCELLED": "dim",
}
REASONS = {
    "ArrayLimit": "enough of its array run",
    "BackoffAfterFailure": "pauses after a failure",
    "BeginTime": "not before its time",
    "BehindBlockedHead": "the job at the head waits",
    "BehindHigherRank": "others are ahead",
    "Dependency": "waits for other jobs",
    "Finished": "",
    "Fragmented": "enough are free, but fragmented",
    "Held": "held; tir release",
    "Impossible": "larger than the cluster",
    "KeptForJobsAhead": "kept for jobs ahead",
    "Preflight": "is tried on one GPU first",
    "Quota": "its user's limit is reached",
    "Running": "",
    "Stopping": "saves its work",
    "WaitingForItsKind": "GPUs of its kind are taken",
    "WaitingForVictimsToExit": "next; others save first",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    """Text that cannot play tricks on a terminal."""
    return _CONTROL.sub("?", str(text))


def reason(job: Mapping[str, Any]) -> str:
    """One line: what is expected of a job that runs, why one that does not is where it is."""
    if job["phase"] == "RUNNING":
        eta_s = (job["progress"] or {}).get("eta_s")
        return "" if eta_s is None else f"done in {short(eta_s)}"
    if job["phase"] == "STARTING":
        return ""
    code = str(job["reason"])
    words = REASONS.get(code)
    if words is None:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", code).lower()
    return plain(words)


def progress(job: Mapping[str, Any]) -> str:
    """How far it is, as far as the training tells."""
    told = job["progress"] or {}
    if told.get("fraction") is not None:
        return f"{told['fraction']:.0%}"
    return NOTHING if told.get("step") is None else f"step {told['step']:,}"


def priority_and_queue(job: Mapping[str, Any]) -> str:
    """What its rank begins with."""
    queue = "" if job["queue"] is None else f"Q{job['queue']}"
    return queue if job["priority"] == "normal" else " ".join(filter(None, [job["priority"], queue]))
