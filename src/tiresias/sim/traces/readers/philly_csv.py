"""Reads the Philly trace reduced to one row per job; ids are row numbers, and `cluster` is the tenant."""

from __future__ import annotations

from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

REQUIRED = ("timestamp", "duration", "num_gpus")


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    return sheet.draft(
        FORMAT.name,
        id=sheet.row_numbers(),
        submitted_at=sheet.instant("timestamp"),
        gpus=sheet.gpus("num_gpus"),
        duration_s=sheet.duration("duration"),
        tenant=sheet.trimmed("cluster"),
    )


FORMAT = Format("philly-csv", "Philly reduced to CSV, one row per job", REQUIRED, read)
