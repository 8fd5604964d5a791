"""Reads Acme (Shanghai AI Lab) `trace_seren.csv` and `trace_kalos.csv`.

The duration is end - start, because the column `duration` of Kalos includes the time in the queue.
The kind of work (`type`) becomes the name of the job.
"""

from __future__ import annotations

from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

REQUIRED = ("job_id", "gpu_num", "type", "submit_time", "start_time", "end_time")


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    sheet.leave_out(sheet.is_zero("gpu_num"), "that asked for no GPU")
    sheet.leave_out(sheet.is_unknown("start_time"), "that never started")
    sheet.leave_out(sheet.is_unknown("end_time"), "without an end")
    sheet.leave_out(sheet.is_same("start_time", "end_time"), "of no length")
    return sheet.draft(
        FORMAT.name,
        id=sheet.identity("job_id"),
        submitted_at=sheet.instant("submit_time"),
        gpus=sheet.gpus("gpu_num"),
        duration_s=sheet.between("start_time", "end_time"),
        user=sheet.trimmed("user"),
        name=sheet.trimmed("type"),
    )


FORMAT = Format("acme", "Acme trace_seren.csv or trace_kalos.csv", REQUIRED, read)
