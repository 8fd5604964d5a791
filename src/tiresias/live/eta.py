"""When a job will start and end: the present queue, replayed with work drawn from history.

How long the jobs ahead will run is not known. So each is given a duration at random from those of jobs that
have ended, among those that are longer than it has run already, and the queue is played to the start of the
job; its end follows as much later as a duration of its own, drawn in the same way. That is done many times;
the medians and the p90s are the answer. A training that reports its progress is believed instead: it runs for
as long as it says.

Rules: pure values in and out, and a seed, so that it can run in another thread and says the same twice. Below
LEAST_HISTORY ended jobs nothing is claimed. What is left out: jobs that are submitted later, preemptions by a
rank that changes, slots that a placer refuses, time to load and to save.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

LEAST_HISTORY = 30  # ended jobs
MOST_AHEAD = 2000  # jobs
SAMPLES = 100


@dataclass(slots=True, frozen=True)
class Ahead:
    """A job that goes before: its GPUs, for how long it has run, and what is left by its own reports."""

    gpus: int
    executed_s: float
    left_s: float | None = None


@dataclass(slots=True, frozen=True)
class Queue:
    """What must be known of the present: the jobs ahead in the order of their ranks, those that hold GPUs and
    may not be preempted first; the GPUs in service; the GPUs of the job; whether no job may pass another."""

    ahead: tuple[Ahead, ...]
    capacity: int
    gpus: int
    is_strict: bool = False
    executed_s: float = 0.0  # for how long the job itself has run
    left_s: float | None = None  # what is left of it by its own reports


@dataclass(slots=True, frozen=True)
class Estimate:
    """Seconds from now until the start and the end. `unknown` says why nothing can be said, if it is so."""

    p50_s: float | None = None
    p90_s: float | None = None
    history: int = 0  # ended jobs from which it was drawn
    unknown: str = ""
    ends_p50_s: float | None = None
    ends_p90_s: float | None = None


def _too_few(known: int) -> str:
    ended = {0: "no job has ended yet", 1: "only 1 job has ended"}.get(known, f"only {known} jobs have ended")
    return f"{ended}; {LEAST_HISTORY} are needed"


def estimate(queue: Queue, durations_s: Sequence[float], seed: int) -> Estimate:
    """When a job behind this queue starts; `durations_s` are the executed times of ended jobs."""
    known = len(durations_s)
    if known < LEAST_HISTORY:
        return Estimate(history=known, unknown=_too_few(known))
    if len(queue.ahead) > MOST_AHEAD:
        return Estimate(history=known, unknown=f"more than {MOST_AHEAD:,} jobs are ahead")
    if queue.gpus > queue.capacity:
        return Estimate(history=known, unknown="too few GPUs are in service for it")
    past, random = sorted(durations_s), Random(seed)
    starts = [_start(queue, [_left(each, past, random) for each in queue.ahead]) for _ in range(SAMPLES)]
    itself = Ahead(queue.gpus, queue.executed_s, queue.left_s)
    ends = sorted(start + _left(itself, past, random) for start in starts)
    starts.sort()
    middle, late = SAMPLES // 2, SAMPLES * 9 // 10
    if queue.left_s is None and queue.executed_s >= past[-1]:  # longer than any other: its end is not known
        return Estimate(starts[middle], starts[late], known)
    return Estimate(starts[middle], starts[late], known, "", ends[middle], ends[late])


def _left(job: Ahead, past: Sequence[float], random: Random) -> float:
    """How much longer it runs; if no job of the past ran for longer, as long again as it has run."""
    if job.left_s is not None:
        return job.left_s
    first = bisect_right(past, job.executed_s)
    if first == len(past):
        return job.executed_s
    return past[random.randrange(first, len(past))] - job.executed_s


def _start(queue: Queue, left_s: Sequence[float]) -> float:
    """The instant at which the job behind all of these starts.

    Jobs start in the order of their ranks as GPUs become free; one that does not fit is passed by those that
    do, unless the order is strict. There are few distinct demands, so that only the first of each is asked.
    """
    waiting: dict[int, list[int]] = {}  # GPUs: numbers of jobs, the last to start first
    for number in range(len(queue.ahead) - 1, -1, -1):
        waiting.setdefault(queue.ahead[number].gpus, []).append(number)
    mine = len(queue.ahead)
    waiting.setdefault(queue.gpus, []).insert(0, mine)
    ends: list[tuple[float, int]] = []
    free, now = queue.capacity, 0.0
    while True:
        heads = [
            (numbers[-1], gpus) for gpus, numbers in waiting.items() if numbers and gpus <= queue.capacity
        ]
        if queue.is_strict:
            heads = [min(heads)]
        fitting = [head for head in heads if head[1] <= free]
        if not fitting:
            now, gpus = heappop(ends)
            free += gpus
            continue
        number, gpus = min(fitting)
        if number == mine:
            return now
        waiting[gpus].pop()
        free -= gpus
        heappush(ends, (now + left_s[number], gpus))
