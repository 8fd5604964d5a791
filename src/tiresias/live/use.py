"""The use of the GPUs, the queue and the waits over a window of time, by user or tenant.

Rules: pure values in and out, so that it can run in another thread. The window is cut into equal steps, and a
run or a wait adds to each step as long as it lasted in it, so figures are means over their step. A GPU that
runs share is in use once, and counts for each of their users. A job waits from when it could first have run
until its end whenever it has no run. Waits are those of jobs that first started in the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tiresias.core.model import JobId
from tiresias.store.window import HeldSlots, JobSpan

SHOWN = 7  # users or tenants with a curve of their own
ROWS = 50  # users or tenants with figures of their own
OTHERS = "(others)"


@dataclass(slots=True)
class WaitFigures:
    """Seconds until the first start, of `jobs` jobs; None if there are none."""

    jobs: int = 0
    p50_s: float | None = None
    p95_s: float | None = None


@dataclass(slots=True)
class Share:
    """What one user or tenant got in the window. `gpus` is its use by step, for those who used most."""

    who: str
    gpu_s: float
    started_jobs: int
    ended_jobs: int
    wait: WaitFigures
    gpus: list[float] | None = None


@dataclass(slots=True)
class Use:
    """Means over the steps of a window; step n begins at `begins_at + n * step_s`."""

    begins_at: float
    ends_at: float
    step_s: float
    capacity: int  # GPUs that there are now
    gpus: list[float]  # held by runs; one that several runs share counts once
    waiting_jobs: list[float]
    waiting_gpus: list[float]
    waits: list[WaitFigures]  # of the jobs that first started in the step
    wait: WaitFigures  # of all that did in the window
    ended_jobs: int
    by: str
    shares: list[Share]  # the largest first; the last may be all others together
    is_cut: bool = False  # more jobs ended in the window asked for; this one is shorter
    since_at: list[float] = field(default_factory=list)  # the beginning of each step


class Steps:
    """A figure over the steps of a window, as the sum of intervals; each costs the same, however long."""

    def __init__(self, begin: float, step_s: float, count: int):
        self._begin, self._step_s, self._count = begin, step_s, count
        self._parts = [0.0] * count  # seconds x weight in steps that are covered in part
        self._changes = [0.0] * (count + 1)  # of the weight in steps that are covered whole

    def add(self, begin: float, end: float, weight: float) -> float:
        """Returns for how many seconds of the interval are in the window."""
        first, last = max(begin - self._begin, 0.0), min(end - self._begin, self._step_s * self._count)
        if last <= first:
            return 0.0
        low = min(int(first / self._step_s), self._count - 1)
        high = min(int(last / self._step_s), self._count - 1)
        if low == high:
            self._parts[low] += weight * (last - first)
        else:
            self._parts[low] += weight * ((low + 1) * self._step_s - first)
            self._parts[high] += weight * (last - high * self._step_s)
            self._changes[low + 1] += weight
            self._changes[high] -= weight
        return last - first

    def means(self) -> list[float]:
        """The mean of each step; tiny errors of sums are taken for nothing."""
        whole = accumulate(self._changes[: self._count])
        found = (level + part / self._step_s for level, part in zip(whole, self._parts, strict=True))
        return [round(max(0.0, each), 6) for each in found]


class Slots:
    """The GPUs that runs hold, over the steps: those that are shared count once. Runs come as they began."""

    def __init__(self, held: Steps):
        self._held = held
        self._until: dict[tuple[int, int], float] = {}  # by node and bit: free of runs so far

    def add(self, node: int, mask: int, begin: float, end: float) -> None:
        weights: dict[float, int] = {}  # by the instant from which a GPU is held by this run alone
        while mask:
            slot = node, mask & -mask
            mask ^= slot[1]
            until = self._until.get(slot, begin)
            if end > until:
                weights[max(begin, until)] = weights.get(max(begin, until), 0) + 1
                self._until[slot] = end
        for since, weight in weights.items():
            self._held.add(since, end, weight)


def use_of(
    jobs: Sequence[JobSpan],
    runs: Iterable[HeldSlots],
    *,
    begin: float,
    end: float,
    steps: int,
    by: str,
    gpu_nodes: frozenset[int],
    capacity: int,
) -> Use:
    """The use between two instants. `gpu_nodes` are the positions of nodes with GPUs: others do not count."""
    step_s = max((end - begin) / steps, 1e-3)

    def made() -> Steps:
        return Steps(begin, step_s, steps)

    held, waiting, wanted = made(), made(), made()
    slots = Slots(held)
    who = {job.id: job.user if by == "user" else job.tenant for job in jobs}
    gpus = {job.id: job.gpus for job in jobs}
    ready = {job.id: job.ready_at for job in jobs}
    of_each: dict[str, Steps] = {}
    gpu_s: dict[str, float] = {}
    for job in jobs:
        if job.ready_at is not None and job.gpus:
            until = end if job.ended_at is None else job.ended_at
            waiting.add(job.ready_at, until, 1.0)
            wanted.add(job.ready_at, until, job.gpus)
    for run in sorted(runs, key=lambda run: run.granted_at):
        name = who.get(run.job_id)
        if name is None or not gpus[run.job_id]:
            continue
        until = end if run.exited_at is None else run.exited_at
        ready_at = ready[run.job_id]
        if ready_at is not None:  # a preflight may run before its job is ready
            waiting.add(max(run.granted_at, ready_at), until, -1.0)
            wanted.add(max(run.granted_at, ready_at), until, -gpus[run.job_id])
        parts = [(node, mask) for node, mask in run.allocation if node in gpu_nodes]
        if count := sum(mask.bit_count() for _, mask in parts):
            for node, mask in parts:
                slots.add(node, mask, run.granted_at, until)
            seconds = of_each.setdefault(name, made()).add(run.granted_at, until, count)
            gpu_s[name] = gpu_s.get(name, 0.0) + seconds * count
    started = [
        (int(min((job.first_started_at - begin) / step_s, steps - 1)), who[job.id], _wait(job))
        for job in jobs
        if job.first_started_at is not None and begin <= job.first_started_at <= end and job.gpus
    ]
    of_steps: list[list[float]] = [[] for _ in range(steps)]
    for step, _, wait_s in started:
        of_steps[step].append(wait_s)
    return Use(
        begin,
        end,
        step_s,
        capacity,
        held.means(),
        waiting.means(),
        wanted.means(),
        [_figures(waits) for waits in of_steps],
        _figures([wait_s for _, _, wait_s in started]),
        sum(1 for job in jobs if job.ended_at is not None and job.ended_at >= begin),
        by,
        _shares(jobs, who, begin, gpu_s, of_each, started),
        since_at=[begin + number * step_s for number in range(steps)],
    )


def _wait(job: JobSpan) -> float:
    assert job.first_started_at is not None, job
    return max(0.0, job.first_started_at - (job.first_started_at if job.ready_at is None else job.ready_at))


def _figures(waits: list[float]) -> WaitFigures:
    if not waits:
        return WaitFigures()
    ordered = sorted(waits)
    return WaitFigures(len(ordered), _share_of(ordered, 0.5), _share_of(ordered, 0.95))


def _share_of(ordered: Sequence[float], share: float) -> float:
    """The quantile, between two values where it lies there."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _shares(
    jobs: Sequence[JobSpan],
    who: Mapping[JobId, str],
    begin: float,
    gpu_s: Mapping[str, float],
    of_each: Mapping[str, Steps],
    started: Sequence[tuple[int, str, float]],
) -> list[Share]:
    waits: dict[str, list[float]] = {}
    for _, name, wait_s in started:
        waits.setdefault(name, []).append(wait_s)
    ended: dict[str, int] = {}
    for job in jobs:
        if job.ended_at is not None and job.ended_at >= begin:
            ended[who[job.id]] = ended.get(who[job.id], 0) + 1
    names = sorted({*gpu_s, *waits, *ended}, key=lambda name: (-gpu_s.get(name, 0.0), name))

    def share(name: str, number: int) -> Share:
        mine = waits.get(name, [])
        curve = of_each[name].means() if number < SHOWN and name in of_each else None
        return Share(name, gpu_s.get(name, 0.0), len(mine), ended.get(name, 0), _figures(mine), curve)

    found = [share(name, number) for number, name in enumerate(names[:ROWS])]
    if rest := names[ROWS:]:
        mine = [wait_s for name in rest for wait_s in waits.get(name, [])]
        total_s, ends = sum(gpu_s.get(name, 0.0) for name in rest), sum(ended.get(name, 0) for name in rest)
        found.append(Share(OTHERS, total_s, len(mine), ends, _figures(mine)))
    return found
