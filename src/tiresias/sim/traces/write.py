"""Writes a trace as a file in our own CSV, from which exactly the same jobs can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import Trace

ALWAYS = ("id", "submitted_at", "gpus", "duration_s")


def write(trace: Trace, path: str | Path) -> None:
    """Write the jobs, compressed if the name ends in .gz; columns without any value are left out."""
    table = trace.jobs.with_columns(
        priority=pl.when(pl.col("priority") != "normal").then("priority"),
    ).with_columns(pl.col(pl.String).replace("", None))
    used = [name for name in table.columns if name in ALWAYS or table[name].null_count() < table.height]
    data = table.select(used).write_csv().encode()
    if str(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)  # no time inside: the same trace gives the same bytes
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}.") from None
