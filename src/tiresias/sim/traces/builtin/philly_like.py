"""A stand-in for the Philly trace of any length, at any load, for any cluster.

Fitted: the mix of GPU counts, the durations given the GPU count (and so the GPU-time by size), the tenants'
shares of the jobs, bursts (how many jobs, how close), and how arrivals vary over the day and the week.
Not fitted: that jobs of a burst or a tenant resemble each other in size and length, users, slow changes over
months, and the 14 jobs of 12 or 24 GPUs. Users and names that come again can be added (recurrence.py).
The mix and the durations are spread evenly over their distributions and not drawn independently, so that
short traces have the heavy tail in proportion too. A seed changes which job is which and when it arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.builtin import philly_stats as stats
from tiresias.sim.traces.builtin.draw import Draw, Floats, Ints, quantiles, whole
from tiresias.sim.traces.builtin.recurrence import recur
from tiresias.sim.traces.draft import complete

JOBS, LOAD, CLUSTER_GPUS = 10_000, 0.9, 512
MOST_JOBS = 20_000_000
LARGEST_BURST = 1 / 20  # of all jobs
WEEK_HOURS = 7 * 24


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs there are, and which load they offer to how many GPUs."""

    jobs: int
    load: float
    cluster_gpus: int

    def __post_init__(self) -> None:
        if not 1 <= self.jobs <= MOST_JOBS:
            raise TraceError(f"jobs {self.jobs}: must be from 1 to {MOST_JOBS:,}.")
        if not (math.isfinite(self.load) and 0.001 <= self.load <= 1000):
            raise TraceError(f"load {self.load}: must be a number from 0.001 to 1000; 1 fills the cluster.")
        if not 1 <= self.cluster_gpus <= 1_000_000:
            raise TraceError(f"cluster_gpus {self.cluster_gpus}: must be from 1 to 1,000,000.")


def jobs(size: Size, draw: Draw, recurring: float | None = None) -> pl.DataFrame:
    """The jobs; their load from the first to the last submission is `size.load`.

    With `recurring`, a share, all jobs have users and names, and this share of the jobs comes again.
    """
    gpus, durations = _work(size, draw)
    offered_gpu_s = int((gpus * durations).sum())
    span_ms = max(1, round(offered_gpu_s / (size.load * size.cluster_gpus) * 1000))
    arrivals, tenants, indices, numbers = [], [], [], []
    burst_count = 0
    for kind, members in (("one", gpus == 1), ("more", gpus > 1)):
        bursts = _bursts(draw, kind, int(members.sum()), size.jobs)
        arrivals.append(_arrivals(draw, kind, bursts, span_ms))
        tenants.append(_tenants(draw, kind, bursts))
        indices.append(np.flatnonzero(members))
        numbers.append(burst_count + np.repeat(np.arange(len(bursts)), bursts))
        burst_count += len(bursts)
    at_ms = _stretched(np.concatenate(arrivals), span_ms)
    order = np.argsort(at_ms, kind="stable")
    index = np.concatenate(indices)[order]
    gpus, durations, of_tenant = gpus[index], durations[index], np.concatenate(tenants)[order]
    columns: dict[str, Any] = {
        "id": pl.int_range(1, size.jobs + 1, eager=True).cast(pl.String),
        "submitted_at": at_ms[order] / 1000,
        "gpus": gpus,
        "duration_s": durations.astype(np.float64),
        "tenant": pl.Series(of_tenant).cast(pl.String).str.replace("^", "t"),
    }
    if recurring is not None:
        bursts = np.concatenate(numbers)[order]
        durations, users, names = recur(recurring, gpus, durations, of_tenant, bursts, draw)
        columns |= {"duration_s": durations.astype(np.float64), "user": users, "name": names}
    return complete(pl.DataFrame(columns))


def _work(size: Size, draw: Draw) -> tuple[Ints, Ints]:
    """GPUs and whole seconds of every job, in no particular order: exact mix, evenly spread durations."""
    mix = {gpus: count for gpus, count in stats.JOBS_BY_GPUS.items() if gpus <= size.cluster_gpus}
    counts = _apportioned(size.jobs, np.array(list(mix.values())))
    durations = [
        np.maximum(1, whole(quantiles(draw.spread(count), stats.DURATION_S[gpus])))
        for gpus, count in zip(mix, counts.tolist(), strict=True)
    ]
    return np.repeat(list(mix), counts), np.concatenate(durations)


def _apportioned(total: int, weights: Ints) -> Ints:
    """Whole numbers in proportion to the weights that add up to the total (largest-remainder method)."""
    exact = total * weights
    counts = exact // weights.sum()
    rest = total - int(counts.sum())
    counts[np.argsort(-(exact % weights.sum()), kind="stable")[:rest]] += 1
    return np.asarray(counts, dtype=np.int64)


def _bursts(draw: Draw, kind: str, count: int, all_jobs: int) -> Ints:
    """Sizes of bursts that add up to `count` jobs."""
    most = max(1, int(all_jobs * LARGEST_BURST))
    sizes = np.clip(whole(quantiles(draw.uniform(count), stats.BURST_JOBS[kind])), 1, most)
    ends = np.cumsum(sizes)
    used = int(np.searchsorted(ends, count)) + 1
    sizes = sizes[:used]
    if count:
        sizes[-1] -= int(ends[used - 1]) - count
    return sizes


def _arrivals(draw: Draw, kind: str, bursts: Ints, span_ms: int) -> Ints:
    """The instants, in milliseconds in [0, span_ms), at which the jobs of these bursts are submitted."""
    starts = _starts_ms(draw.uniform(len(bursts)), span_ms)
    steps = np.cumsum(draw.gaps_ms(int(bursts.sum()), stats.BURST_GAP_S[kind]))
    firsts = np.cumsum(bursts) - bursts
    since_first = steps - np.repeat(steps[firsts], bursts)
    return np.asarray((np.repeat(starts, bursts) + since_first) % span_ms, dtype=np.int64)


def _starts_ms(levels: Floats, span_ms: int) -> Ints:
    """Instants that are spread over the span by the weights of hours and days, from Monday at 0:00 on."""
    hours = math.ceil(span_ms / 3_600_000)
    week = np.outer(np.array(stats.DAY_WEIGHT), np.array(stats.HOUR_WEIGHT)).ravel()
    passed = np.concatenate([[0.0], np.cumsum(np.resize(week, hours))])
    at_hour = np.arange(hours + 1, dtype=np.float64)
    until = np.interp(span_ms / 3_600_000, at_hour, passed)
    return whole(np.interp(levels * until, passed, at_hour) * 3_600_000)


def _tenants(draw: Draw, kind: str, bursts: Ints) -> Ints:
    """The number of the tenant of every job: all jobs of a burst have the same."""
    shares = np.cumsum(stats.TENANT_JOBS[kind])
    picks = np.searchsorted(shares, (draw.uniform(len(bursts)) * shares[-1]).astype(np.int64), side="right")
    return np.repeat(picks + 1, bursts)


def _stretched(at_ms: Ints, span_ms: int) -> Ints:
    """The same instants, shifted and scaled so that the first is 0 and the last is the span."""
    first, last = int(at_ms.min()), int(at_ms.max())
    if first == last:
        return np.zeros_like(at_ms)
    scale = float(span_ms) / float(last - first)
    return whole((at_ms - first).astype(np.float64) * scale)
