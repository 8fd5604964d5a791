"""Continuous 2D-LAS: least attained service first, without queues."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

from tiresias.core.model import Rank
from tiresias.core.plugins import Policy, option, policies
from tiresias.core.state import JobState
from tiresias.policies.options import PreemptiveOptions, positive_seconds


@policies.register
class Las(Policy):
    """Least attained service (GPUs x time) first, ranked anew every quantum: fair, but preempts a lot."""

    name = "las"
    moves = True

    @dataclass(slots=True)
    class Options(PreemptiveOptions):
        quantum_s: float = option(600.0, "seconds between rankings while somebody waits", positive_seconds)

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (job.service_at(at),)

    def drift(self, job: JobState) -> float:
        return job.gpus

    def next_tick(self, at: float) -> float:
        quantum_s: float = self.options.quantum_s
        return (floor(at / quantum_s + 1e-9) + 1) * quantum_s
