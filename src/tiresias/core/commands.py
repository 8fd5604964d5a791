"""What the driver shall do: imperative, idempotent by `run_id`."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.model import JobId, RunId


@dataclass(slots=True)
class StartRun:
    run_id: RunId
    job_id: JobId
    allocation: Allocation
    resumes: bool


@dataclass(slots=True)
class StopRun:
    run_id: RunId


@dataclass(slots=True)
class SetTimer:
    """Wake the Controller at this instant; replaces the wish before it. INFINITY means no wish."""

    at: float


Command = StartRun | StopRun | SetTimer
