"""Reads Alibaba 2023 (`openb_pod_list_*.csv`): pods, some of which share a GPU.

A share of a GPU counts as a whole GPU, because slots are not divided here; a note says for how many jobs.
"""

from __future__ import annotations

import polars as pl

from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft, jobs
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

REQUIRED = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    sheet.leave_out(sheet.is_zero("num_gpu"), "that asked for no GPU")
    sheet.leave_out(sheet.is_unknown("scheduled_time"), "that never started")
    sheet.leave_out(sheet.is_unknown("deletion_time"), "without an end")
    sheet.leave_out(sheet.is_same("scheduled_time", "deletion_time"), "of no length")
    shares = int((sheet.trimmed("gpu_milli").cast(pl.Float64, strict=False) < 1000).sum())
    if shares:
        sheet.notes.append(f"counted {jobs(shares)} with a share of a GPU as if with a whole one")
    return sheet.draft(
        FORMAT.name,
        id=sheet.identity("name"),
        submitted_at=sheet.instant("creation_time"),
        gpus=sheet.gpus("num_gpu"),
        duration_s=sheet.between("scheduled_time", "deletion_time"),
    )


FORMAT = Format("alibaba-2023", "Alibaba 2023 openb_pod_list CSV", REQUIRED, read)
