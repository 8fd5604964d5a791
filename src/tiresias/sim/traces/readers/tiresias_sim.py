"""Reads the CSV of the Tiresias authors' simulator, with times in seconds from the start of the trace."""

from __future__ import annotations

from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

REQUIRED = ("job_id", "num_gpu", "submit_time", "duration")


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    return sheet.draft(
        FORMAT.name,
        id=sheet.identity("job_id"),
        submitted_at=sheet.instant("submit_time"),
        gpus=sheet.gpus("num_gpu"),
        duration_s=sheet.duration("duration"),
        model=sheet.trimmed("model_name"),
    )


FORMAT = Format("tiresias-sim", "CSV of the Tiresias authors' simulator", REQUIRED, read)
