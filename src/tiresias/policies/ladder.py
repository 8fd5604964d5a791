"""Thresholds between queues: given, or following the service distribution seen so far."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log
from typing import Any

STEPS_PER_E = 16  # buckets of the histogram: each e^(1/16) = 1.064 times as wide as the last


class Histogram:
    """How much service ended jobs took: counts in logarithmic buckets, of bounded size."""

    __slots__ = ("buckets", "count")

    def __init__(self, buckets: dict[int, int] | None = None) -> None:
        self.buckets = {} if buckets is None else buckets
        self.count = sum(self.buckets.values())

    def add(self, service_gpu_s: float) -> None:
        bucket = round(log(max(service_gpu_s, 1e-3)) * STEPS_PER_E)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def sample(self) -> tuple[list[float], list[float]]:
        """Rising values and how many jobs stand for each."""
        buckets = sorted(self.buckets)
        return [exp(b / STEPS_PER_E) for b in buckets], [float(self.buckets[b]) for b in buckets]

    def quantile(self, q: float) -> float:
        """The service that a share q of the ended jobs did not exceed."""
        rank = q * self.count
        passed = 0
        for bucket in sorted(self.buckets):
            passed += self.buckets[bucket]
            if passed >= rank:
                return exp(bucket / STEPS_PER_E)
        raise ValueError("quantile of nothing")


FIRST_GPU_S = 3600.0  # the first threshold before enough jobs have ended: one GPU-hour, as in the paper
ENOUGH = 20  # jobs
LEEWAY = 2.0  # a ladder stays while its first threshold is within this factor of what was seen
REACH = 1e8  # GPU-seconds: the last queue starts at or above this


class AutoLadder:
    """Thresholds that follow the services seen so far.

    The first queue holds what a `share` of the ended jobs needed in all; each further queue reaches `ratio`
    times as far. A ladder stays while it is nearly right: a new one would change ranks through no merit of
    any job, and each such change costs preemptions.
    """

    __slots__ = ("ratio", "share")

    def __init__(self, share: float = 0.75, ratio: float = 6.0):
        self.share = share
        self.ratio = ratio

    def fit(self, seen: Histogram, now: tuple[float, ...] = ()) -> tuple[float, ...]:
        """The ladder for what was seen; `now` is the one in use."""
        first = seen.quantile(self.share) if seen.count >= ENOUGH else FIRST_GPU_S
        if now and now[0] / LEEWAY <= first <= now[0] * LEEWAY:
            return now
        ladder = [first]
        while ladder[-1] < REACH:
            ladder.append(ladder[-1] * self.ratio)
        return tuple(ladder)


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
