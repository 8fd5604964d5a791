"""What the driver must do next: in the imperative, and idempotent by `run_id`."""

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
class PaceRun:
    """Let the run work in the `turn`-th of every `turns` slices of time; 1: always, 0: never."""

    run_id: RunId
    turn: int
    turns: int


@dataclass(slots=True)
class SetTimer:
    """Hand the Controller a TimerFired at this instant, and at no earlier one asked for; INFINITY: never."""

    at: float


Command = StartRun | StopRun | PaceRun | SetTimer
