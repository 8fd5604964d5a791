"""A trace: the jobs a simulation replays, as one table."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),  # as the source names it; unique
    "submitted_at": pl.Float64(),  # epoch seconds (or seconds from the trace's start, where it has no date)
    "gpus": pl.Int64(),  # >= 1
    "duration_s": pl.Float64(),  # > 0: time at full speed, without waiting
    "user": pl.String(),  # "" where unknown, like the following
    "tenant": pl.String(),
    "name": pl.String(),
    "group": pl.String(),
    "priority": pl.String(),  # high, normal or low
    "model": pl.String(),
    "preemption_cost_s": pl.Float64(),  # null: the simulation's --preemption-cost
    "preemptible": pl.Boolean(),  # null: yes
    "gpu_type": pl.String(),  # "": any
    "cpus": pl.Int64(),  # cores for the whole gang; null: its share
    "memory_gib": pl.Float64(),  # for the whole gang; null: its share
    "cpu_speed": pl.Float64(),  # on CPUs, of its speed on GPUs; 0: cannot run there; null: what is asked for
}


OPTIONAL = ("preemption_cost_s", "preemptible", "cpus", "memory_gib", "cpu_speed")
"""The columns that may hold nulls."""


@dataclass(slots=True)
class Trace:
    """Jobs sorted by (submitted_at, id in natural order), with every column of SCHEMA."""

    name: str
    jobs: pl.DataFrame
    format: str = "tiresias"
    skipped_rows: int = 0  # bad rows left out because the user said so
    notes: list[str] = field(default_factory=list)  # what the reader left out or assumed, for people

    def __len__(self) -> int:
        return self.jobs.height
