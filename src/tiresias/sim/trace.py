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
}


OPTIONAL = ("preemption_cost_s", "preemptible", "resumable", "cpus", "memory_gib", "cpu_speed", "nodes")
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
