"""A trace from a data frame that a user made."""

from __future__ import annotations

import polars as pl

from tiresias.core.model import INFINITY
from tiresias.sim.errors import InputError
from tiresias.sim.trace import SCHEMA, Trace

REQUIRED = ("submitted_at", "gpus", "duration_s")
DEFAULTS: dict[str, str | None] = {"priority": "normal"}


def from_frame(frame: pl.DataFrame, name: str = "data frame") -> Trace:
    """Check the frame, fill in missing columns, sort by submission; rows of one instant keep their order."""
    for column in REQUIRED:
        if column not in frame.columns:
            raise InputError(f"{name}: no column {column!r}; it needs {', '.join(REQUIRED)}")
    unknown = sorted(set(frame.columns) - set(SCHEMA))
    if unknown:
        raise InputError(f"{name}: unknown column {unknown[0]!r}; known: {', '.join(SCHEMA)}")
    if "id" not in frame.columns:
        frame = frame.with_columns(id=pl.int_range(pl.len()).cast(pl.String))
    missing = [column for column in SCHEMA if column not in frame.columns]
    blank = {column: "" if SCHEMA[column] == pl.String else None for column in missing} | DEFAULTS
    frame = frame.with_columns(pl.lit(blank[column]).alias(column) for column in missing)
    if frame.schema["gpus"].is_float() and not (frame["gpus"] == frame["gpus"].floor()).all():
        raise InputError(f"{name}: gpus holds numbers that are not whole")
    try:
        frame = frame.select(pl.col(column).cast(kind, strict=True) for column, kind in SCHEMA.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{name}: {error}") from None
    cost_s = pl.col("preemption_cost_s")
    wrong = frame.filter(
        (pl.col("gpus") < 0)
        | ~((pl.col("duration_s") > 0) & pl.col("duration_s").is_finite())
        | (cost_s.is_not_null() & ~((cost_s >= 0) & cost_s.is_finite()))
        | ~pl.col("submitted_at").is_finite()
        | pl.any_horizontal(pl.col(*REQUIRED).is_null())
        | ~pl.col("priority").is_in(["high", "normal", "low"])
        | (pl.col("cpus") < 1).fill_null(False)
        | ~pl.col("cpu_speed").fill_null(0.0).is_between(0.0, 1.0)
        | ~pl.col("nodes").fill_null(1).is_between(1, pl.max_horizontal("gpus", 1))
        | ~(pl.col("memory_gib").fill_null(1.0).is_between(0.0, INFINITY, closed="none"))
        | ~pl.col("min_gpus").is_between(1, pl.col("gpus")).fill_null(True)
        | (pl.col("max_gpus") < pl.max_horizontal("gpus", 1)).fill_null(False)
    )
    if wrong.height:
        raise InputError(f"{name}: job {wrong['id'][0]!r} is not a job: {wrong.row(0, named=True)}")
    twice = frame.filter(pl.col("id").is_duplicated())
    if twice.height:
        raise InputError(f"{name}: two jobs have the id {twice['id'][0]!r}")
    return Trace(name, frame.sort("submitted_at", maintain_order=True), format="frame")
