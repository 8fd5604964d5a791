"""Reads Slurm's accounting as `sacct -P` prints it, which is the trace that most people have.

    sacct -a -P -S 2024-01-01 -o JobID,User,Account,Submit,Start,End,ElapsedRaw,AllocTRES,ReqTRES,State

Job steps (`123.batch`) are not jobs. The tasks of an array (`12_3`) are jobs, in one group.
"""

from __future__ import annotations

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.delimited import split
from tiresias.sim.traces.draft import Draft
from tiresias.sim.traces.instants import epoch_seconds
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.sheet import LONGEST_S, Sheet
from tiresias.sim.traces.source import Source

REQUIRED = ("JobID", "Submit")
UNFINISHED = ["RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING"]
WAITING = ["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"]


def read(source: Source) -> Draft:
    sheet = split(_without_last_bar(source), "|", quotes=False)
    sheet.need(*REQUIRED)
    sheet.keep(~sheet.text("JobID").str.contains(".", literal=True))  # the others are steps
    sheet.leave_out(_gpus(sheet) == 0, "without GPUs")
    sheet.leave_out(_state(sheet).is_in(WAITING) | _unknown(sheet, "Start"), "that never started")
    sheet.leave_out(_state(sheet).is_in(UNFINISHED) | _unknown(sheet, "End"), "still running")
    sheet.leave_out(_unknown(sheet, "Submit"), "without a time of submission")
    sheet.leave_out((_elapsed(sheet)[1] == 0).fill_null(False), "that ran for less than a second")
    ids = sheet.identity("JobID")
    return sheet.draft(
        FORMAT.name,
        id=ids,
        submitted_at=sheet.instant("Submit"),
        gpus=_gpus(sheet),
        duration_s=_duration(sheet),
        user=sheet.trimmed("User"),
        tenant=sheet.trimmed("Account"),
        name=sheet.trimmed("JobName"),
        group=ids.str.extract(r"^([0-9]+)_").fill_null(""),
    )


def _without_last_bar(source: Source) -> Source:
    """`sacct -p` ends every line with a bar, `-P` does not."""
    if not source.header.endswith("|"):
        return source
    lines = [line.rstrip("\r").removesuffix("|") for line in source.text.split("\n")]
    return Source(source.name, "\n".join(lines))


def _state(sheet: Sheet) -> pl.Series:
    return sheet.trimmed("State").str.split(" ").list.first()  # "CANCELLED by 1000"


def _unknown(sheet: Sheet, column: str) -> pl.Series:
    """Where the time is `Unknown` or `None`; nowhere if the file does not have the column."""
    return sheet.is_unknown(column) & (column in sheet.columns)


def _gpus(sheet: Sheet) -> pl.Series:
    """GPUs that a job was given, or those that it asked for if that is unknown; 0 if neither names any."""
    if "AllocTRES" not in sheet.columns and "ReqTRES" not in sheet.columns:
        raise TraceError(
            f"{sheet.source.name}: missing column AllocTRES (or ReqTRES), which has the number of GPUs. "
            "Add it to sacct's -o list."
        )
    return _tres_gpus(sheet.text("AllocTRES")).fill_null(_tres_gpus(sheet.text("ReqTRES"))).fill_null(0)


def _tres_gpus(tres: pl.Series) -> pl.Series:
    """N of `gres/gpu=N`, or the sum over types (`gres/gpu:a100=N`) if there is no total; null: no GPUs."""
    total = tres.str.extract(r"(?:^|,)gres/gpu=([0-9]{1,6})(?:,|$)").cast(pl.Int64)
    typed = tres.str.extract_all(r"gres/gpu:[^=,]+=[0-9]{1,6}")
    counts = typed.list.eval(pl.element().str.extract(r"=([0-9]+)$").cast(pl.Int64)).list.sum()
    return total.fill_null(pl.select(pl.when(counts > 0).then(counts)).to_series())


def _duration(sheet: Sheet) -> pl.Series:
    column, seconds = _elapsed(sheet)
    good = ((seconds > 0) & (seconds <= LONGEST_S)).fill_null(False)
    sheet.refuse(~good, column, "is not a length of time above 0")
    return pl.select(pl.when(good).then(seconds)).to_series()


def _elapsed(sheet: Sheet) -> tuple[str, pl.Series]:
    """The column from which durations are taken (ElapsedRaw, else Elapsed, else End), and the seconds."""
    if "ElapsedRaw" in sheet.columns:
        return "ElapsedRaw", sheet.trimmed("ElapsedRaw").cast(pl.Float64, strict=False)
    if "Elapsed" in sheet.columns:
        return "Elapsed", _clock(sheet.trimmed("Elapsed"))
    sheet.need("Start", "End")
    return "End", epoch_seconds(sheet.trimmed("End")) - epoch_seconds(sheet.trimmed("Start"))


def _clock(cells: pl.Series) -> pl.Series:
    """Seconds from `[D-][HH:]MM:SS[.mmm]`; null where the text has another form."""
    parts = cells.str.extract_groups(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)$").struct.unnest()
    days, hours, minutes, seconds = (parts.to_series(index).cast(pl.Float64) for index in range(4))
    return days.fill_null(0.0) * 86400 + hours.fill_null(0.0) * 3600 + minutes * 60 + seconds


FORMAT = Format("slurm", "Slurm accounting, sacct -P", REQUIRED, read, separator="|")
