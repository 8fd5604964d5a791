"""Policies that know in advance how long each job will take: bounds to compare others with."""

from __future__ import annotations

from typing import Any

from tiresias.core.model import Rank
from tiresias.core.plugins import OptionError, Policy, policies
from tiresias.core.state import JobState
from tiresias.policies.options import PreemptiveOptions


def known_duration_s(job: JobState, policy: str) -> float:
    """The whole job's time at full speed; OptionError if it is not known."""
    duration_s = job.job.duration_s
    if duration_s is None:
        raise OptionError(f"{policy} needs every duration, but job {job.id} has none; only traces state them")
    return duration_s


@policies.register
class Sjf(Policy):
    """Shortest job first by total duration, known in advance; never preempts."""

    name = "sjf"
    preempts = False

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (known_duration_s(job, self.name),)


@policies.register
class Srtf(Policy):
    """Shortest remaining time first, known in advance."""

    name = "srtf"
    drifts = True
    Options = PreemptiveOptions

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (known_duration_s(job, self.name) - job.progress_at(at),)

    def drift(self, job: JobState) -> float:
        run = job.gpu_run
        return -run.speed if run is not None else 0.0


@policies.register
class Srsf(Policy):
    """Shortest remaining service (time x GPUs) first, known in advance: the oracle."""

    name = "srsf"
    drifts = True
    Options = PreemptiveOptions

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ((known_duration_s(job, self.name) - job.progress_at(at)) * job.gpus,)

    def drift(self, job: JobState) -> float:
        run = job.gpu_run
        return -run.speed * job.gpus if run is not None else 0.0
