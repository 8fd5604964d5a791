"""The worked example of the Tiresias paper: three jobs at once on a machine with 2 GPUs."""

from __future__ import annotations

import polars as pl

from tiresias.sim.traces.draft import complete

SCHEMA = {"id": pl.String(), "gpus": pl.Int64(), "duration_s": pl.Float64()}
JOBS = [("J1", 2, 2.0), ("J2", 1, 8.0), ("J3", 2, 6.0)]


def jobs() -> pl.DataFrame:
    return complete(pl.DataFrame(JOBS, schema=SCHEMA, orient="row").with_columns(submitted_at=0.0))
