"""Traces of four tenants with equal shares, one of which floods the cluster with searches."""

from __future__ import annotations

from random import Random

from tiresias.sim.trace import Trace
from tiresias.testing.builders import a_trace

TENANTS = ("a", "b", "c", "flood")
GPUS = 64
SIZES = (1, 1, 1, 1, 2, 2, 4, 8)
AT_ONCE = 40  # jobs of a search, which are submitted together


def flooded_trace(seed: int, hours: float = 72.0, quiet: float = 0.6, flood: float = 2.0) -> Trace:
    """Jobs for 64 GPUs: three tenants ask for `quiet` times their share on average, one for `flood` times."""
    rng = Random(seed)
    mean_gpu_s = sum(gpus * duration_s for gpus, duration_s in (_job(rng) for _ in range(20_000))) / 20_000
    rows: list[tuple[float, int, float, str]] = []
    for tenant in TENANTS:
        size, load = (AT_ONCE, flood) if tenant == "flood" else (1, quiet)
        gap_s = mean_gpu_s * size / (load * GPUS / len(TENANTS))
        at = rng.expovariate(1 / gap_s)
        while at < hours * 3600:
            rows.extend((at, *_job(rng), tenant) for _ in range(size))
            at += rng.expovariate(1 / gap_s)
    rows.sort(key=lambda row: row[0])
    return a_trace([row[:3] for row in rows], tenant=[row[3] for row in rows])


def _job(rng: Random) -> tuple[int, float]:
    """GPUs and duration: half an hour in the geometric mean, one minute to six hours."""
    return rng.choice(SIZES), float(round(min(6 * 3600, max(60, rng.lognormvariate(7.0, 1.3)))))
