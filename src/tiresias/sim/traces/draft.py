"""What a reader hands over, and how it becomes a Trace: bad rows first, then doubles, then order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import SCHEMA, Trace
from tiresias.sim.traces.order import in_order

PROBLEM = {"line": pl.Int64(), "column": pl.String(), "value": pl.String(), "why": pl.String()}
SHOWN = 3
DEFAULTS = {"priority": "normal"}


@dataclass(slots=True)
class Draft:
    """Jobs as read (the columns of SCHEMA and `line`, cells of bad rows null), with what was found wrong."""

    name: str
    format: str
    jobs: pl.DataFrame
    problems: pl.DataFrame
    notes: list[str] = field(default_factory=list)


def no_problems() -> pl.DataFrame:
    return pl.DataFrame(schema=PROBLEM)


def complete(table: pl.DataFrame) -> pl.DataFrame:
    """The same jobs with every column of SCHEMA, in its order and types; what is missing is unknown."""
    missing = [
        pl.lit(DEFAULTS.get(name, "") if kind == pl.String else None, dtype=kind).alias(name)
        for name, kind in SCHEMA.items()
        if name not in table.columns
    ]
    columns = [pl.col(name).cast(kind) for name, kind in SCHEMA.items()]
    extra = [pl.col(name) for name in ("line",) if name in table.columns]
    return table.with_columns(missing).select(columns + extra)


def finish(draft: Draft, *, skip_bad_rows: bool) -> Trace:
    """The draft as a trace; stops at the first bad row unless bad rows are to be left out."""
    problems = pl.concat([draft.problems, _doubles(draft)]).sort("line", maintain_order=True)
    problems = problems.unique("line", keep="first", maintain_order=True)  # one complaint a row
    if problems.height and not skip_bad_rows:
        raise TraceError(_first(draft.name, problems))
    kept = draft.jobs.join(problems.select("line"), on="line", how="anti") if problems.height else draft.jobs
    notes = list(draft.notes)
    if problems.height:
        notes.append(_skipped(draft.name, problems))
    if not kept.height:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise TraceError(f"{draft.name}: the trace holds no job that can be replayed{why}.")
    ordered = in_order(complete(kept).drop("line"))
    return Trace(Path(draft.name).name, ordered, draft.format, skipped_rows=problems.height, notes=notes)


def _doubles(draft: Draft) -> pl.DataFrame:
    """Every row whose id an earlier row has already."""
    ids = draft.jobs.select("line", "id").drop_nulls()
    if not ids["id"].is_duplicated().any():
        return no_problems()
    first = ids.group_by("id").agg(pl.col("line").min().alias("first"))
    again = ids.join(first, on="id", how="left").filter(pl.col("line") > pl.col("first"))
    return again.select(
        "line",
        pl.lit("id").alias("column"),
        pl.col("id").alias("value"),
        ("is also the id on line " + pl.col("first").cast(pl.String)).alias("why"),
    )


def _first(name: str, problems: pl.DataFrame) -> str:
    more = problems.height - 1
    also = f" ({more:,} more bad {'row' if more == 1 else 'rows'})" if more else ""
    return (
        f"{name}, {_complaint(problems.row(0, named=True))}{also}. "
        "Fix it, or leave bad rows out with --skip-bad-rows."
    )


def _skipped(name: str, problems: pl.DataFrame) -> str:
    shown = "; ".join(_complaint(row) for row in problems.head(SHOWN).iter_rows(named=True))
    rest = "; …" if problems.height > SHOWN else ""
    rows = "1 bad row" if problems.height == 1 else f"{problems.height:,} bad rows"
    return f"skipped {rows} of {name}: {shown}{rest}"


def _complaint(problem: dict[str, object]) -> str:
    column = f", column {problem['column']}" if problem["column"] else ""
    return f"line {problem['line']}{column}: {shortened(str(problem['value']))} {problem['why']}"


def jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def shortened(value: str, limit: int = 60) -> str:
    """The value in quotes, cut where it would fill the screen."""
    return repr(value if len(value) <= limit else value[:limit] + "…")
