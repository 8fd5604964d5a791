"""Reads Helios (SenseTime) `cluster_log.csv`: GPU and CPU jobs of a Slurm cluster; `vc` is the tenant."""

from __future__ import annotations

from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

REQUIRED = ("job_id", "vc", "gpu_num", "submit_time", "duration")


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    sheet.leave_out(sheet.is_zero("gpu_num"), "that asked for no GPU")
    sheet.leave_out(sheet.is_zero("duration") | sheet.is_unknown("duration"), "that never ran (duration 0)")
    return sheet.draft(
        FORMAT.name,
        id=sheet.identity("job_id"),
        submitted_at=sheet.instant("submit_time"),
        gpus=sheet.gpus("gpu_num"),
        duration_s=sheet.duration("duration"),
        user=sheet.trimmed("user"),
        tenant=sheet.trimmed("vc"),
    )


FORMAT = Format("helios", "Helios cluster_log.csv", REQUIRED, read)
