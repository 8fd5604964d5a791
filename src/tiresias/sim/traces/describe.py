"""Describes what is in a trace, in numbers that are worth a look before it is replayed."""

from __future__ import annotations

from typing import TypedDict

import polars as pl

from tiresias.sim.trace import Trace
from tiresias.sim.traces.draft import jobs as count_of_jobs

LEVELS = {"p5": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class SizeShare(TypedDict):
    """Jobs of one size."""

    gpus: int
    jobs: int
    jobs_share: float
    service_share: float


class Description(TypedDict):
    """Shares are from 0 to 1. `busy_gpus` is the load: demanded GPU-seconds per second of the span."""

    name: str
    format: str
    jobs: int
    first_submitted_at: float
    last_submitted_at: float
    span_s: float
    users: int
    tenants: int
    largest_gpus: int
    gpu_hours: float
    busy_gpus: float | None
    sizes: list[SizeShare]
    duration_s: dict[str, float]
    service_gpu_s: dict[str, float]
    skipped_rows: int
    notes: list[str]


def describe(trace: Trace) -> Description:
    """The trace in numbers; `busy_gpus` is None if all jobs are submitted at one instant."""
    jobs = trace.jobs.with_columns(service=pl.col("gpus") * pl.col("duration_s"))
    total = float(jobs["service"].sum())
    first, last = float(jobs["submitted_at"][0]), float(jobs["submitted_at"][-1])
    return {
        "name": trace.name,
        "format": trace.format,
        "jobs": jobs.height,
        "first_submitted_at": first,
        "last_submitted_at": last,
        "span_s": last - first,
        "users": jobs.filter(pl.col("user") != "")["user"].n_unique(),
        "tenants": jobs.filter(pl.col("tenant") != "")["tenant"].n_unique(),
        "largest_gpus": int(jobs["gpus"].to_numpy().max()),
        "gpu_hours": total / 3600,
        "busy_gpus": total / (last - first) if last > first else None,
        "sizes": _sizes(jobs, total),
        "duration_s": _quantiles(jobs["duration_s"]),
        "service_gpu_s": _quantiles(jobs["service"]),
        "skipped_rows": trace.skipped_rows,
        "notes": list(trace.notes),
    }


def _sizes(jobs: pl.DataFrame, total: float) -> list[SizeShare]:
    by_size = jobs.group_by("gpus").agg(pl.len().alias("jobs"), pl.col("service").sum()).sort("gpus")
    return [
        {
            "gpus": gpus,
            "jobs": count,
            "jobs_share": count / jobs.height,
            "service_share": service / (total or 1.0),
        }
        for gpus, count, service in by_size.select("gpus", "jobs", "service").iter_rows()
    ]


def _quantiles(values: pl.Series) -> dict[str, float]:
    numbers = values.to_numpy()
    found = {"min": float(numbers.min())}
    for name, level in LEVELS.items():
        found[name] = float(values.quantile(level, "linear") or 0.0)
    return found | {"max": float(numbers.max()), "mean": float(numbers.mean())}


def table(found: Description) -> list[tuple[str, str]]:
    """The description as (name, value) rows to be printed."""
    busy = "all jobs at once" if found["busy_gpus"] is None else f"{found['busy_gpus']:,.1f}"
    rows = [
        ("jobs", f"{found['jobs']:,}"),
        ("span", span_text(found["span_s"])),
        ("GPU-hours", f"{found['gpu_hours']:,.1f}"),
        ("GPUs busy on average", busy),
        ("largest job", f"{found['largest_gpus']:,} GPUs"),
        ("users", f"{found['users']:,}" if found["users"] else "unknown"),
        ("tenants", f"{found['tenants']:,}" if found["tenants"] else "unknown"),
    ]
    for size in found["sizes"]:
        share = f"{count_of_jobs(size['jobs'])} ({size['jobs_share']:.2%})"
        label = f"{size['gpus']} GPU{'' if size['gpus'] == 1 else 's'}"
        rows.append((label, f"{share}, {size['service_share']:.2%} of the GPU-time"))
    for label, values in (("duration, s", found["duration_s"]), ("service, GPU-s", found["service_gpu_s"])):
        rows.append((label, "  ".join(f"{name} {_short(value)}" for name, value in values.items())))
    if found["skipped_rows"]:
        rows.append(("bad rows skipped", f"{found['skipped_rows']:,}"))
    return rows + [("note", note) for note in found["notes"]]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def span_text(seconds: float) -> str:
    """A length of time in its two largest units: `109 d 21 h`."""
    days, rest = divmod(round(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days:,} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{seconds:g} s"
