"""Tiresias' own policies: discretised 2D-LAS and 2D-Gittins (NSDI'19)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, JobId, Phase, Rank
from tiresias.core.plugins import Policy, option, policies
from tiresias.core.state import JobState
from tiresias.policies.ladder import Histogram, auto_ladder, parse_queues
from tiresias.policies.options import PreemptiveOptions, one_of, seconds

STOPPING = Phase.STOPPING
TOLERANCE_GPU_S = 1e-3  # epoch seconds resolve to 2.4e-7 s; a crossing is never missed for that


class Memory:
    """What a Tiresias policy has learned: a serialisable value."""

    __slots__ = ("ladder", "promoted", "refit_at", "seen")

    def __init__(self, ladder: tuple[float, ...]):
        self.ladder = ladder
        self.seen = Histogram()  # service of the jobs that have ended
        self.refit_at = 0  # how many must have ended before the ladder is fitted anew
        self.promoted: dict[JobId, tuple[float, float, float]] = {}  # (at, executed_s, service_gpu_s) then


@dataclass(slots=True)
class QueueOptions(PreemptiveOptions):
    queues: Any = option("auto", "thresholds between the queues in GPU-seconds, rising (3250,7200), or auto", parse_queues)
    order: str = option(
        "running-first",
        "inside a queue: first-start (the paper), running-first, last-preempted-first (its authors' code)",
        one_of("first-start", "running-first", "last-preempted-first"),
    )
    promote_knob: float = option(0.0, "promote a job that waits this many times what it has executed; 0: never", seconds)


@policies.register
class TiresiasL(Policy):
    """Discretised 2D-LAS: a few queues by attained service (GPUs x time); needs no knowledge of durations."""

    name = "tiresias-l"
    learns = frozenset({f.RunExited, f.JobPromoted})
    Options = QueueOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._order = {
            "first-start": first_start,
            "running-first": running_first,
            "last-preempted-first": last_preempted_first,
        }[self.options.order]
        self._knob: float = self.options.promote_knob

    def new_memory(self) -> Memory:
        queues = self.options.queues
        return Memory(auto_ladder(Histogram()) if queues == "auto" else queues)

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        return self.standing(job, memory, at)[0]

    def standing(self, job: JobState, memory: Memory, at: float) -> tuple[Rank, float]:
        service = job.service_at(at)
        if self._knob and job.id in memory.promoted:
            service -= memory.promoted[job.id][2]
        ladder = memory.ladder
        queue = bisect_right(ladder, service + TOLERANCE_GPU_S)
        until = INFINITY
        if job.run is not None:
            if queue < len(ladder):
                until = at + (ladder[queue] - service) / job.gpus
        elif self._knob and queue and job.runs:
            until = self._starves_at(job, memory)
        return self._order(job, queue), until

    def _starves_at(self, job: JobState, memory: Memory) -> float:
        """When it will have waited knob times as long as it has executed, both since its last promotion."""
        since, executed_s, _ = memory.promoted.get(job.id, (job.submitted_at, 0.0, 0.0))
        return since + (1 + self._knob) * (job.held_s - executed_s)

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        if self._knob and job.run is None and self._starves_at(job, memory) <= at:
            return f.JobPromoted(at, job.id)
        return None

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool:
        assert job is not None
        if type(fact) is f.JobPromoted:
            memory.promoted[job.id] = (fact.at, job.held_s, job.service_gpu_s)
            return False
        if fact.cause is not ExitCause.FINISHED:
            return False
        memory.promoted.pop(job.id, None)
        if self.options.queues != "auto":
            return False
        memory.seen.add(job.service_gpu_s)
        if memory.seen.count < memory.refit_at:
            return False
        return self._refit(memory)

    def _refit(self, memory: Memory) -> bool:
        memory.refit_at = max(memory.seen.count + 1, int(memory.seen.count * 1.25))
        before, memory.ladder = memory.ladder, auto_ladder(memory.seen)
        return memory.ladder != before


def first_start(job: JobState, queue: int) -> Rank:
    """By first start; who never started comes after, by submission."""
    if job.runs:
        return (queue, 0, job.first_started_at)
    return (queue, 1, job.submitted_at)


def running_first(job: JobState, queue: int) -> Rank:
    """Who runs stays ahead of who waits; otherwise by first start."""
    if job.run is not None and job.phase is not STOPPING:
        return (queue, 0, job.first_started_at)
    if job.runs:
        return (queue, 1, job.first_started_at)
    return (queue, 2, job.submitted_at)


def last_preempted_first(job: JobState, queue: int) -> Rank:
    """Who runs, by last start; then who was preempted, the latest first; then who never ran."""
    if job.run is not None and job.phase is not STOPPING:
        return (queue, 0, job.run.granted_at)
    if job.runs:
        return (queue, 1, -job.last_preempted_at)
    return (queue, 2, job.submitted_at)
