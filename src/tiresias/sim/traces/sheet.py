"""A Sheet converts the cells of a delimited text to typed columns and collects the problems in them.

A reader first leaves out rows that are of no use, then states what each column is (`gpus`, `instant` …).
Every bad cell becomes a problem with its line, column and value, and a null in the result. All work is done
column by column, so that a million rows take seconds.
"""

from __future__ import annotations

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.draft import PROBLEM, Draft, complete, jobs, shortened
from tiresias.sim.traces.instants import epoch_seconds
from tiresias.sim.traces.source import Source

MOST_GPUS = 1_000_000
LATEST_AT = 1e11  # the year 5138: beyond it the numbers are milliseconds, not seconds
LONGEST_S = 1e10  # 317 years
NOTHING = ["", "none", "null", "nan", "na", "n/a", "unknown"]


class Sheet:
    """Cells of a delimited text file, and the problems found in them so far."""

    def __init__(
        self, source: Source, cells: pl.DataFrame, rows: pl.DataFrame, problems: pl.DataFrame
    ) -> None:
        """`rows` has the `number` and the `line` in the file of each row of cells."""
        self.source = source
        self.columns = cells.columns
        self.cells = cells
        self.rows = rows
        self.problems = [problems]
        self.notes: list[str] = []
        self.id_column = ""

    def need(self, *columns: str) -> None:
        """Stop unless the file has these columns."""
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise TraceError(
                f"{self.source.name}: missing {'column' if len(missing) == 1 else 'columns'} "
                f"{', '.join(missing)}; the header has {shortened(', '.join(self.columns), 200)}. "
                "Add what is missing, or name another format."
            )

    def keep(self, rows: pl.Series) -> None:
        """Drop all other rows. Call it before reading any column."""
        self.cells = self.cells.filter(rows)
        self.rows = self.rows.filter(rows)

    def leave_out(self, rows: pl.Series, why: str) -> None:
        """Drop rows that are correct but of no use, and note how many. Call it before reading any column."""
        count = int(rows.sum())
        if count:
            self.keep(~rows)
            self.notes.append(f"left out {jobs(count)} {why}")

    def text(self, column: str) -> pl.Series:
        """The cells as they are; empty texts if the file has no such column."""
        if column in self.columns:
            return self.cells[column]
        return pl.Series(column, [""], dtype=pl.String).new_from_index(0, self.cells.height)

    def trimmed(self, column: str) -> pl.Series:
        """The cells without white space around them."""
        return self.text(column).str.strip_chars()

    def is_unknown(self, column: str) -> pl.Series:
        """Where the cell is empty or one of NOTHING."""
        return self.trimmed(column).str.to_lowercase().is_in(NOTHING)

    def is_zero(self, column: str) -> pl.Series:
        return (self.trimmed(column).cast(pl.Float64, strict=False) == 0.0).fill_null(False)

    def is_same(self, start: str, end: str) -> pl.Series:
        """Where two instants are equal."""
        return (epoch_seconds(self.trimmed(start)) == epoch_seconds(self.trimmed(end))).fill_null(False)

    def identity(self, column: str) -> pl.Series:
        """Ids: any text that is not empty; `finish` checks that each is unique."""
        self.id_column = column
        ids = self.text(column)
        empty = ids.str.strip_chars() == ""
        self.refuse(empty, column, "is empty")
        return pl.select(pl.when(~empty).then(ids)).to_series()

    def row_numbers(self) -> pl.Series:
        """Ids for a file that has none: row numbers from 1, without the header and blank lines."""
        return self.rows["number"].cast(pl.String)

    def number(
        self,
        column: str,
        *,
        above: float | None = None,
        least: float | None = None,
        most: float = LONGEST_S,
        optional: bool = False,
    ) -> pl.Series:
        """Finite numbers within the bounds; an empty cell is a problem unless the number is optional."""
        cells = self.trimmed(column)
        if not optional:
            self.refuse(cells == "", column, "is empty")
        values = cells.cast(pl.Float64, strict=False)
        self.refuse(values.is_null() & (cells != ""), column, "is not a number")
        return self._bounded(column, values, above, least, most)

    def duration(self, column: str) -> pl.Series:
        """Seconds, above zero."""
        return self.number(column, above=0.0)

    def gpus(self, column: str, least: int = 1) -> pl.Series:
        """Numbers of GPUs: whole, and not below the least."""
        values = self.number(column, least=float(least), most=MOST_GPUS)
        self.refuse(values.is_not_null() & (values != values.floor()), column, "is not a whole number")
        return values.cast(pl.Int64)

    def instant(self, column: str) -> pl.Series:
        """Epoch seconds, from a number or an ISO 8601 date and time."""
        cells = self.trimmed(column)
        self.refuse(cells == "", column, "is empty")
        values = epoch_seconds(cells)
        self.refuse(values.is_null() & (cells != ""), column, "is neither a number nor an ISO date and time")
        return self._bounded(column, values, None, 0.0, LATEST_AT)

    def between(self, start: str, end: str) -> pl.Series:
        """Seconds from one instant to a later one."""
        values = self.instant(end) - self.instant(start)
        self.refuse((values <= 0).fill_null(False), end, f"is not after {start}")
        return values

    def refuse(self, rows: pl.Series, column: str, why: str) -> None:
        """Add a problem for each of these rows; `why` continues the sentence after the value."""
        if rows.any():
            bad = self.rows.filter(rows).with_columns(self.text(column).filter(rows).alias("value"))
            bad = bad.with_columns(column=pl.lit(column), why=pl.lit(why))
            self.problems.append(bad.select([pl.col(name).cast(kind) for name, kind in PROBLEM.items()]))

    def _bounded(
        self, column: str, values: pl.Series, above: float | None, least: float | None, most: float
    ) -> pl.Series:
        """The values, null where they are out of bounds, so that no bad value is used in a computation."""
        finite = values.is_finite().fill_null(False)
        self.refuse(values.is_not_null() & ~finite, column, "is not a finite number")
        late = " (in milliseconds, perhaps)" if most == LATEST_AT else ""
        bounds = [(values > most, f"is above {most:,.0f}{late}")]
        if above is not None:
            bounds.append((values <= above, f"is not above {above:g}"))
        if least is not None:
            bounds.append((values < least, f"is below {least:g}"))
        good = finite
        for broken, why in bounds:
            self.refuse(finite & broken.fill_null(False), column, why)
            good &= ~broken.fill_null(True)
        return pl.select(pl.when(good).then(values)).to_series()

    def draft(self, format: str, **columns: pl.Series) -> Draft:
        """A draft of these columns, with the line of each row."""
        table = complete(self.rows.with_columns(**columns))
        problems = pl.concat(self.problems)
        return Draft(self.source.name, format, table, problems, self.notes, self.id_column)
