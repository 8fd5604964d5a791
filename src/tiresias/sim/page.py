"""A finished comparison or sweep as one value for a page: figures, and curves with few points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tiresias.sim.report import Point
from tiresias.sim.result import Result

POINTS = 240  # of a curve
TENANTS = 20
FIGURES = (
    "jobs", "rejected_jobs", "avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "max_jct_s", "avg_wait_s",
    "p95_wait_s", "makespan_s", "preemptions", "gpu_utilization", "avg_slowdown", "max_rho", "p50_rho",
    "jain",
)  # fmt: skip


def comparison(
    results: Sequence[Result], labels: Sequence[str], *, trace: str, cluster: str, notes: Sequence[str]
) -> dict[str, Any]:
    """All results of one trace on one cluster."""
    finished = [(label, each) for label, each in zip(labels, results, strict=True) if each.jobs.height]
    ends = [float(each.timeline["at"][-1]) for _, each in finished if each.timeline.height]
    begins = [float(each.timeline["at"][0]) for _, each in finished if each.timeline.height]
    grid = _between(min(begins, default=0.0), max(ends, default=1.0))
    jct = _log_between([value for _, each in finished for value in _jct(each).to_list()])
    return {
        "kind": "compare",
        "trace": trace,
        "cluster": cluster,
        "gpus": results[0].cluster.gpus if results else 0,
        "notes": list(notes),
        "at": grid,
        "jct_s": jct,
        "results": [_shown(label, each, grid, jct) for label, each in finished],
    }


def sweep(points: Sequence[Point], *, notes: Sequence[str]) -> dict[str, Any]:
    """All points of a grid."""
    return {
        "kind": "sweep",
        "notes": list(notes),
        "points": [
            {
                "cluster": point.cluster,
                "policy": point.policy,
                "options": point.options,
                "seeds": point.seeds,
                "gpus": point.gpus,
                "is_best": point.is_best,
                "is_pareto": point.is_pareto,
                **_finite({name: point.means.get(name) for name in FIGURES}),
            }
            for point in points
        ],
    }


def _shown(label: str, result: Result, grid: Sequence[float], jct: Sequence[float]) -> dict[str, Any]:
    figures = result.summary()
    ordered = _jct(result).sort()
    below = ordered.search_sorted(pl.Series(jct, dtype=pl.Float64), side="right")
    tenants = figures.get("tenants") or {}
    most = sorted(tenants, key=lambda name: (-(tenants[name].get("share_gpus") or 0), name))[:TENANTS]
    return {
        "label": label,
        "policy": result.policy,
        "placer": result.placer,
        **_finite({name: figures.get(name) for name in FIGURES}),
        "cdf": [round(int(count) / ordered.len(), 4) for count in below],
        "busy_gpus": _means(result.timeline, "busy_gpus", grid),
        "waiting": _means(result.timeline, "waiting", grid),
        "tenants": {name: _finite(tenants[name]) for name in most},
    }


def _jct(result: Result) -> pl.Series:
    return result.jobs["jct_s"].clip(lower_bound=1e-3)


def _finite(figures: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no infinities."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in figures.items()
    }


def _between(begin: float, end: float) -> list[float]:
    step = max((end - begin) / POINTS, 1e-9)
    return [begin + number * step for number in range(POINTS)]


def _log_between(values: Sequence[float]) -> list[float]:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    ratio = max(high / low, 1.001) ** (1 / (POINTS - 1))
    return [*(low * ratio**number for number in range(POINTS - 1)), high]


def _means(timeline: pl.DataFrame, name: str, grid: Sequence[float]) -> list[float]:
    """The mean of a figure of the timeline between each instant of the grid and the next one."""
    at, values = timeline["at"].to_list(), timeline[name].to_list()
    step = grid[1] - grid[0]
    sums, place, level = [0.0] * len(grid), 0, 0.0
    for number, begin in enumerate(grid):
        now, end = begin, begin + step
        while place < len(at) and at[place] < end:
            sums[number] += level * max(0.0, at[place] - now)
            now, level = max(now, at[place]), float(values[place])
            place += 1
        sums[number] += level * (end - now)
    return [round(each / step, 3) for each in sums]
