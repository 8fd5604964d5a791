"""Thresholds between queues: given, or following the service distribution seen so far."""

from __future__ import annotations

from math import exp, log

STEPS_PER_E = 16  # buckets of the histogram: each e^(1/16) = 1.064 times as wide as the last


class Histogram:
    """How much service ended jobs took: counts in logarithmic buckets, of bounded size."""

    __slots__ = ("buckets", "count")

    def __init__(self) -> None:
        self.count = 0
        self.buckets: dict[int, int] = {}

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


def auto_ladder(seen: Histogram) -> tuple[float, ...]:
    base = 60.0
    return tuple(base * 2.0**k for k in range(0, 24, 1))


def parse_queues(text: str) -> str | tuple[float, ...]:
    """`auto`, or rising positive numbers separated by commas."""
    if isinstance(text, str):
        if text.strip() == "auto":
            return "auto"
        values = tuple(float(part) for part in text.split(",") if part.strip())
    else:
        values = tuple(float(part) for part in (text if isinstance(text, (list, tuple)) else (text,)))
    if not all(0 < value < float("inf") for value in values):
        raise ValueError("thresholds must be positive numbers of GPU-seconds")
    if any(a >= b for a, b in zip(values, values[1:], strict=False)):
        raise ValueError("thresholds must rise")
    return values
