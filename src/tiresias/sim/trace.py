"""A trace: the jobs that a simulation replays, as one table."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),  # as the source names it; unique
    "submitted_at": pl.Float64(),  # epoch seconds, or seconds from the start of a trace without dates
    "gpus": pl.Int64(),  # >= 0
    "duration_s": pl.Float64(),  # > 0: time at full speed, without waiting
    "user": pl.String(),  # "" where unknown, like the following
    "tenant": pl.String(),
    "name": pl.String(),
    "group": pl.String(),
    "priority": pl.String(),  # high, normal or low
    "model": pl.String(),
    "preemption_cost_s": pl.Float64(),  # null: the simulation's --preemption-cost
    "preemptible": pl.Boolean(),  # null: yes
    "resumable": pl.Boolean(),  # whether its work outlives a preemption; null: yes
    "gpu_type": pl.String(),  # "": any
    "cpus": pl.Int64(),  # cores for the whole gang; null: its share
    "memory_gib": pl.Float64(),  # for the whole gang; null: its share
    "cpu_speed": pl.Float64(),  # speed on CPUs / speed on GPUs; 0: cannot run there; null: --cpu-speed
    "nodes": pl.Int64(),  # on how many nodes the GPUs must be, shared out evenly; null: as it comes
    "min_gpus": pl.Int64(),  # of elastic jobs: the fewest and the most GPUs that they run on;
    "max_gpus": pl.Int64(),  # `duration_s` is that on `gpus`; null: as many as `gpus`
}


OPTIONAL = (
    "preemption_cost_s",
    "preemptible",
    "resumable",
    "cpus",
    "memory_gib",
    "cpu_speed",
    "nodes",
    "min_gpus",
    "max_gpus",
)
"""The columns that may contain nulls."""


@dataclass(slots=True)
class Trace:
    """Jobs sorted by (submitted_at, id in natural order), with every column of SCHEMA."""

    name: str
    jobs: pl.DataFrame
    format: str = "tiresias"
    skipped_rows: int = 0  # bad rows that were left out because the user asked for it
    notes: list[str] = field(default_factory=list)  # sentences: what the reader left out or assumed

    def __len__(self) -> int:
        return self.jobs.height


def has_elastic_jobs(trace: Trace) -> bool:
    """Whether any job of the trace may run on more than one number of GPUs."""
    sizes = trace.jobs.select("gpus", "min_gpus", "max_gpus")
    others = pl.any_horizontal(pl.col("min_gpus", "max_gpus") != pl.col("gpus"))
    return bool(sizes.select(others.fill_null(False).any()).item())
