"""A Draft is what a reader returns; `finish` makes a Trace of it, without bad rows and in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import SCHEMA, Trace
from tiresias.sim.traces.order import in_order

PROBLEM = {
    "number": pl.Int64(),
    "line": pl.Int64(),
    "column": pl.String(),
    "value": pl.String(),
    "why": pl.String(),
}
SHOWN = 3
DEFAULTS = {"priority": "normal"}


@dataclass(slots=True)
class Draft:
    """Jobs as read, and the problems that were found in them.

    `jobs` has the columns of SCHEMA (null where a cell is bad), a unique `number` of each row and the `line`
    on which the row begins. `problems` refers to rows by the same two columns.
    """

    name: str
    format: str
    jobs: pl.DataFrame
    problems: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    id_column: str = "id"


def complete(table: pl.DataFrame) -> pl.DataFrame:
    """The same jobs with every column of SCHEMA, in its order and types; missing columns get defaults."""
    missing = [
        pl.lit(DEFAULTS.get(name, "") if kind == pl.String else None, dtype=kind).alias(name)
        for name, kind in SCHEMA.items()
        if name not in table.columns
    ]
    columns = [pl.col(name).cast(kind) for name, kind in SCHEMA.items()]
    extra = [pl.col(name) for name in ("number", "line") if name in table.columns]
    return table.with_columns(missing).select(columns + extra)


def finish(draft: Draft, *, skip_bad_rows: bool) -> Trace:
    """The draft as a trace; TraceError names the first bad row, unless bad rows are to be left out."""
    bad = draft.problems.unique("number", keep="first", maintain_order=True)  # one problem per row
    problems = pl.concat([bad, _duplicates(draft, _without(draft.jobs, bad))]).sort("number")
    if problems.height and not skip_bad_rows:
        raise TraceError(_first(draft.name, problems))
    kept = _without(draft.jobs, problems)
    notes = list(draft.notes)
    if problems.height:
        notes.append(_skipped(draft.name, problems))
    if not kept.height:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise TraceError(f"{draft.name}: the trace has no job that can be replayed{why}.")
    ordered = in_order(kept.drop("number", "line"))
    return Trace(Path(draft.name).name, ordered, draft.format, skipped_rows=problems.height, notes=notes)


def _without(jobs: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    return jobs.join(problems.select("number"), on="number", how="anti") if problems.height else jobs


def _duplicates(draft: Draft, good: pl.DataFrame) -> pl.DataFrame:
    """A problem for every good row with the id of an earlier row."""
    ids = good.select("number", "line", "id")
    if not ids["id"].is_duplicated().any():
        return pl.DataFrame(schema=PROBLEM)
    first = ids.unique("id", keep="first", maintain_order=True).select("id", first="number", at="line")
    again = ids.join(first, on="id", how="left").filter(pl.col("number") > pl.col("first"))
    return again.select(
        "number",
        "line",
        pl.lit(draft.id_column).alias("column"),
        pl.col("id").alias("value"),
        pl.format("is also the id on line {}", "at").alias("why"),
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
    """The value in quotes, cut to `limit` characters."""
    return repr(value if len(value) <= limit else value[:limit] + "…")
