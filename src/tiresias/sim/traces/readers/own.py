"""Reads our own CSV, which has the columns of a Trace under their names."""

from __future__ import annotations

import polars as pl

from tiresias.core.model import Priority
from tiresias.sim.trace import SCHEMA
from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.sheet import MOST_GPUS, Sheet
from tiresias.sim.traces.source import Source

REQUIRED = ("submitted_at", "gpus", "duration_s")
TEXTS = ("user", "tenant", "name", "group", "model")
MOST_CORES = 100_000_000
MOST_GIB = 1e9


def read(source: Source) -> Draft:
    sheet = split(source)
    sheet.need(*REQUIRED)
    unknown = [name for name in sheet.columns if name and name not in SCHEMA]
    if unknown:
        sheet.notes.append(f"ignored {'column' if len(unknown) == 1 else 'columns'} {', '.join(unknown)}")
    return sheet.draft(
        FORMAT.name,
        id=_ids(sheet),
        submitted_at=sheet.instant("submitted_at"),
        gpus=sheet.gpus("gpus", least=0),
        duration_s=sheet.duration("duration_s"),
        priority=_priority(sheet),
        preemption_cost_s=_cost(sheet),
        preemptible=_yes_or_no(sheet, "preemptible"),
        resumable=_yes_or_no(sheet, "resumable"),
        gpu_type=sheet.trimmed("gpu_type"),
        cpus=_cores(sheet),
        nodes=_nodes(sheet),
        cpu_speed=sheet.number("cpu_speed", least=0.0, most=1.0, optional=True),
        memory_gib=sheet.number("memory_gib", above=0.0, most=MOST_GIB, optional=True),
        **_sizes(sheet),
        **{name: sheet.text(name) for name in TEXTS},
    )


def _ids(sheet: Sheet) -> pl.Series:
    if "id" not in sheet.columns:
        return sheet.row_numbers()
    return sheet.identity("id")


def _priority(sheet: Sheet) -> pl.Series:
    cells = sheet.trimmed("priority").str.to_lowercase().replace("", Priority.NORMAL.value)
    known = [priority.value for priority in Priority]
    sheet.refuse(~cells.is_in(known), "priority", f"is not a priority ({', '.join(known)})")
    return cells


def _cost(sheet: Sheet) -> pl.Series:
    return sheet.number("preemption_cost_s", least=0.0, optional=True)


def _cores(sheet: Sheet) -> pl.Series:
    values = sheet.number("cpus", least=1.0, most=MOST_CORES, optional=True)
    sheet.refuse(values.is_not_null() & (values != values.floor()), "cpus", "is not a whole number")
    return values.cast(pl.Int64)


def _nodes(sheet: Sheet) -> pl.Series:
    """On how many nodes, of which each has a GPU of the gang."""
    values = sheet.number("nodes", least=1.0, optional=True)
    sheet.refuse(values.is_not_null() & (values != values.floor()), "nodes", "is not a whole number")
    gpus = sheet.trimmed("gpus").cast(pl.Float64, strict=False)
    sheet.refuse((values > gpus.clip(1.0)).fill_null(False), "nodes", "is more than the job has GPUs")
    return values.cast(pl.Int64)


def _sizes(sheet: Sheet) -> dict[str, pl.Series]:
    """The range of elastic jobs, in which their reference size must be."""
    gpus = sheet.trimmed("gpus").cast(pl.Float64, strict=False)
    found = {}
    for column in ("min_gpus", "max_gpus"):
        values = sheet.number(column, least=1.0, most=MOST_GPUS, optional=True)
        sheet.refuse(values.is_not_null() & (values != values.floor()), column, "is not a whole number")
        found[column] = values.cast(pl.Int64)
    sheet.refuse((found["min_gpus"] > gpus).fill_null(False), "min_gpus", "is above gpus")
    sheet.refuse((found["max_gpus"] < gpus).fill_null(False), "max_gpus", "is below gpus")
    is_elastic = found["min_gpus"].is_not_null() | found["max_gpus"].is_not_null()
    on_nodes = sheet.trimmed("nodes") != ""
    sheet.refuse(is_elastic & on_nodes, "nodes", "is given for a job that may have several sizes")
    without = (gpus == 0) & is_elastic
    sheet.refuse(without.fill_null(False), "gpus", "is 0, and a job without GPUs has no sizes")
    return found


def _yes_or_no(sheet: Sheet, column: str) -> pl.Series:
    cells = sheet.trimmed(column).str.to_lowercase()
    sheet.refuse(~cells.is_in(["", "true", "false"]), column, "is neither true nor false")
    return cells.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)


FORMAT = Format("tiresias", "Tiresias trace CSV (our own)", REQUIRED, read)
