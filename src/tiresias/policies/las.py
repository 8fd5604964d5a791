"""2D-LAS without queues: least attained service first.

A run keeps the rank it started with until it has worked for a quantum, and then from quantum to quantum.
If services were compared at every instant, two jobs would take turns at each event. If the time to load
counted, no job would work at all under a quantum that is no longer than the cost of a preemption.
A run that has exited counts all of its time, saving included. So a job whose run is saving can rank ahead of
another one, have it preempted, and rank behind it a moment later. The queues of tiresias-l prevent this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

from tiresias.core.model import INFINITY, Rank
from tiresias.core.plugins import Policy, option, policies
from tiresias.core.state import JobState
from tiresias.policies.options import PreemptiveOptions, positive_seconds


@policies.register
class Las(Policy):
    """Least attained service (GPUs x time) first, ranked anew every quantum: fair, but preempts a lot."""

    name = "las"

    @dataclass(slots=True)
    class Options(PreemptiveOptions):
        quantum_s: float = option(600.0, "seconds a run works between two rankings", positive_seconds)

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return self.standing(job, memory, at, False)[0]

    def standing(self, job: JobState, memory: Any, at: float, is_due: bool) -> tuple[Rank, float]:
        run = job.gpu_run
        if run is None:
            return (job.service_gpu_s,), INFINITY
        quantum_s = self.options.quantum_s
        if run.started_at == INFINITY:  # it is loading
            return (job.service_gpu_s,), at + quantum_s
        quanta = floor((at - run.started_at) / quantum_s + 1e-9)
        counted_at = run.started_at + quanta * quantum_s if quanta else run.granted_at
        return (job.service_at(counted_at),), run.started_at + (quanta + 1) * quantum_s
