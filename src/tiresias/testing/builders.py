"""Functions that build jobs and traces for tests. The source of randomness is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import polars as pl

from tiresias.core.model import Demand, Job, JobId
from tiresias.sim.frames import from_frame
from tiresias.sim.trace import Trace

COLUMNS = ("submitted_at", "gpus", "duration_s")

Row = tuple[float, int, float]
"""(submitted_at, gpus, duration_s)."""


def a_job(id: int, gpus: int = 1, submitted_at: float = 0.0, **more: Any) -> Job:
    """A job with this id; `more` are fields of Job. A `demand` among them replaces `gpus`."""
    return Job(JobId(id), more.pop("demand", None) or Demand(gpus), submitted_at, **more)


def a_trace(rows: Iterable[Row], name: str = "test", **columns: Sequence[Any]) -> Trace:
    """A trace from (submitted_at, gpus, duration_s) rows; `columns` are further columns of a trace."""
    kinds = {"submitted_at": pl.Float64, "gpus": pl.Int64, "duration_s": pl.Float64}
    frame = pl.DataFrame([tuple(row) for row in rows], schema=kinds, orient="row")
    return from_frame(frame.with_columns(pl.Series(key, values) for key, values in columns.items()), name)


def random_trace(
    rng: Random,
    jobs: int,
    *,
    sizes: Sequence[int] = (1, 1, 2, 4, 8),
    gap_s: int = 20,
    longest_s: int = 400,
    whole: bool = True,
) -> list[Row]:
    """Rows of a busy trace. With `whole` seconds many instants coincide, otherwise none do.

    `gap_s` is about the mean time between submissions, `longest_s` the longest duration.
    """
    rows: list[Row] = []
    at = 0.0
    for _ in range(jobs):
        at += rng.choice((0, 0, rng.randrange(2 * gap_s + 1))) if whole else rng.expovariate(1 / gap_s)
        length = 2 ** rng.uniform(0, (longest_s + 1).bit_length())
        duration_s = float(min(longest_s, max(1, round(length)))) if whole else min(longest_s, length)
        rows.append((at, rng.choice(sizes), duration_s))
    return rows
