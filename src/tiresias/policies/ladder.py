"""Thresholds between queues: given, or following the service distribution seen so far."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from math import exp, log
from operator import mul
from typing import Any, NamedTuple

STEPS_PER_E = 16  # buckets of the histogram: each e^(1/16) = 1.064 times as wide as the last


class Histogram:
    """How much service ended jobs took: counts in logarithmic buckets, of bounded size.

    Counts are numbers of jobs until something is forgotten, which makes fractions of them.
    """

    __slots__ = ("buckets", "count")

    def __init__(self, buckets: dict[int, float] | None = None) -> None:
        self.buckets = {} if buckets is None else buckets
        self.count: float = sum(self.buckets.values())

    def add(self, service_gpu_s: float) -> None:
        bucket = round(log(max(service_gpu_s, 1e-3)) * STEPS_PER_E)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def forget(self, most: float) -> None:
        """Let all that was seen count for `most` jobs at most."""
        if self.count > most:
            kept = most / self.count
            self.buckets = {bucket: count * kept for bucket, count in self.buckets.items()}
            self.count = sum(self.buckets.values())

    def sample(self) -> tuple[list[float], list[float]]:
        """Rising values and how many jobs stand for each."""
        buckets = sorted(self.buckets)
        return [exp(b / STEPS_PER_E) for b in buckets], [float(self.buckets[b]) for b in buckets]

    def quantile(self, q: float) -> float:
        """The service that a share q of the ended jobs did not exceed."""
        rank = q * self.count
        passed = 0.0
        for bucket in sorted(self.buckets):
            passed += self.buckets[bucket]
            if passed >= rank:
                return exp(bucket / STEPS_PER_E)
        raise ValueError("quantile of nothing")


class Ends:
    """Where along the service jobs have ended, for questions about parts of it."""

    def __init__(self, seen: Histogram):
        self._services, self._counts = seen.sample()

    def between(self, above: float, up_to: float) -> float:
        """How many jobs ended between the two services."""
        return sum(self._counts[bisect_right(self._services, above) : bisect_right(self._services, up_to)])

    def per_service(self, above: float, up_to: float) -> float:
        """Jobs that ended between the two services, divided by the GPU-seconds that jobs took there."""
        first, last = bisect_right(self._services, above), bisect_right(self._services, up_to)
        counts = self._counts[first:last]
        ended = sum(counts)
        taken = sum(map(mul, counts, self._services[first:last])) - ended * above
        taken += sum(self._counts[last:]) * (up_to - above)
        return ended / taken if taken else 0.0


FIRST_GPU_S = 3600.0  # the first threshold before enough jobs have ended: one GPU-hour, as in the paper
ENOUGH = 20  # jobs
LEEWAY = 2.0  # a ladder stays while its first threshold is within this factor of what was seen
REACH = 1e8  # GPU-seconds: the last queue starts at or above this
LEAST_GPU_S = 1.0  # no queue ends below this, even if preemptions cost nothing
SPLIT = 3.0  # a queue is split where the jobs of its lower part end so many times as often per GPU-second
KEEP = 2.0  # a split that is there stays while they end so many times as often
WORTH = 20.0  # a queue is at least so many times as wide as what a preemption wastes
JOIN = 1.5  # a threshold that is there is left out only if jobs behind it end so many times as often
EVIDENCE = 20.0  # jobs that must have ended behind a threshold for it to be left out
MOST_SEEN = 4000.0  # jobs: what was seen counts for so many at most, so that it is forgotten slowly


class Ladder(NamedTuple):
    """Rising thresholds in GPU-seconds, and the one that was learned, whether or not it is among them."""

    thresholds: tuple[float, ...]
    learned: float | None = None


class AutoLadder:
    """Thresholds that follow the services seen so far.

    A `share` of the ended jobs needed no more than the learned threshold. The others are `ratio` times apart,
    up to REACH and down to what is worth a preemption. Which of them are used depends on how often jobs end
    per GPU-second on either side. Below the learned one a threshold needs a reason: jobs that have not
    reached it end much more often than those behind. From the learned one on it needs a reason to be left
    out: jobs that have passed it end as often as those that have not. A ladder stays while it is nearly
    right: a new one would change ranks through no merit of any job, and each such change costs preemptions.
    """

    __slots__ = ("ratio", "share")

    def __init__(self, share: float = 0.75, ratio: float = 6.0):
        self.share = share
        self.ratio = ratio

    def fit(self, seen: Histogram, now: Ladder | None = None, wasted_gpu_s: float = 0.0) -> Ladder:
        """The ladder for what was seen; `now` is the one in use. A preemption wastes so many GPU-seconds."""
        least = max(LEAST_GPU_S, WORTH * wasted_gpu_s)
        learned = max(seen.quantile(self.share) if seen.count >= ENOUGH else FIRST_GPU_S, least)
        former = now.learned if now is not None else None
        if former is not None and former / LEEWAY <= learned <= former * LEEWAY:
            learned = former
        rungs = self._rungs(learned, least)
        if seen.count < ENOUGH:
            return Ladder(tuple([rung for rung in rungs if rung >= learned]), learned)
        ends = Ends(seen)
        used: list[float] = []
        for rung, upper in pairwise([*rungs, rungs[-1] * self.ratio]):
            before = ends.per_service(used[-1] if used else 0.0, rung)
            behind = ends.per_service(rung, upper)
            if self._is_wanted(rung, learned, before, behind, ends.between(rung, upper), now):
                used.append(rung)
        return Ladder(tuple(used), learned)

    def _rungs(self, learned: float, least: float) -> list[float]:
        """All thresholds that could be used."""
        rungs = [learned]
        while rungs[0] / self.ratio >= least:
            rungs.insert(0, rungs[0] / self.ratio)
        while rungs[-1] < REACH:
            rungs.append(rungs[-1] * self.ratio)
        return rungs

    def _is_wanted(
        self, rung: float, learned: float, before: float, behind: float, ends: float, now: Ladder | None
    ) -> bool:
        is_there = now is not None and rung in now.thresholds
        if rung < learned:
            return before > (KEEP if is_there else SPLIT) * behind
        return ends < EVIDENCE or before > (1 / JOIN if is_there else 1) * behind


Queues = tuple[float, ...] | str


def parse_queues(given: Any) -> Queues:
    """`auto` or `auto:SHARE:RATIO` as it is, or rising positive thresholds."""
    if isinstance(given, str) and given.strip().startswith("auto"):
        auto_ladder(given.strip())
        return given.strip()
    if isinstance(given, str):
        values = tuple(float(part) for part in given.split(",") if part.strip())
    else:
        values = tuple(float(part) for part in (given if isinstance(given, list | tuple) else (given,)))
    if not all(0 < value < float("inf") for value in values):
        raise ValueError("thresholds must be positive numbers of GPU-seconds")
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("thresholds must rise")
    return values


def auto_ladder(queues: Queues) -> AutoLadder | None:
    """The ladder that `auto` or `auto:SHARE:RATIO` names; None where thresholds are given."""
    if not isinstance(queues, str):
        return None
    if queues == "auto":
        return AutoLadder()
    parts = queues.split(":")
    if len(parts) != 3 or parts[0] != "auto":
        raise ValueError("write auto or auto:SHARE:RATIO, such as auto:0.75:6")
    share, ratio = float(parts[1]), float(parts[2])
    if not 0 < share < 1 or not 1.1 <= ratio < float("inf"):
        raise ValueError("the share must be between 0 and 1, the ratio at least 1.1")
    return AutoLadder(share, ratio)
