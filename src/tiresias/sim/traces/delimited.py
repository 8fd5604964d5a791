"""Splits delimited text into a Sheet, in which each row has its line number in the file.

Text without quotes is split column by column, which is fast; only text with quotes is split row by row.
"""

from __future__ import annotations

import csv
import gc
import io
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.draft import shortened
from tiresias.sim.traces.sheet import Sheet
from tiresias.sim.traces.source import Source


def split(source: Source, separator: str = ",", *, quotes: bool = True) -> Sheet:
    """The table of a delimited text with a header; blank lines are not rows."""
    sheet = _by_rows(source, separator) if quotes and '"' in source.text else _by_columns(source, separator)
    if not sheet.cells.height and not sheet.problems[0].height:
        raise TraceError(f"{source.name}: the file has a header but no jobs.")
    return sheet


def _by_columns(source: Source, separator: str) -> Sheet:
    text = pl.Series("text", [source.text]).str.split("\n").explode().str.strip_chars_end("\r")
    rows = pl.DataFrame({"line": pl.int_range(1, len(text) + 1, eager=True), "text": text})
    rows = rows.filter(pl.col("text").str.strip_chars() != "")
    header = _header(source, rows["text"][0].split(separator) if rows.height else [])
    rows = rows.with_row_index("number")[1:].with_columns(
        pl.col("number").cast(pl.Int64),
        fields=pl.col("text").str.count_matches(separator, literal=True) + 1,
    )
    wrong = rows.filter(pl.col("fields") != len(header))
    rows = rows.filter(pl.col("fields") == len(header))
    cells = rows["text"].str.split_exact(separator, len(header) - 1).struct.unnest()
    cells.columns = header
    return Sheet(source, cells, rows.select("number", "line"), _ragged(wrong, len(header)))


def _by_rows(source: Source, separator: str) -> Sheet:
    """Split text with quotes, in which a field may contain separators and line ends."""
    with _no_collector():
        lines, records = _records(source, separator)
        header = _header(source, records[0] if records else [])
        positions = pl.DataFrame(
            {"number": range(len(records)), "line": lines, "fields": [len(cells) for cells in records]},
            schema={"number": pl.Int64(), "line": pl.Int64(), "fields": pl.Int64()},
        )[1:]
        odd = positions.filter(pl.col("fields") != len(header))
        odd = odd.with_columns(
            pl.Series("text", [separator.join(records[i]) for i in odd["number"]], dtype=pl.String)
        )
        rows = positions.filter(pl.col("fields") == len(header))
        kept = records[1:] if not odd.height else [records[i] for i in rows["number"]]
        columns = list(zip(*kept, strict=True)) or [()] * len(header)
        cells = pl.DataFrame(
            [pl.Series(name, values, dtype=pl.String) for name, values in zip(header, columns, strict=True)]
        )
    return Sheet(source, cells, rows.select("number", "line"), _ragged(odd, len(header)))


def _records(source: Source, separator: str) -> tuple[list[int], list[list[str]]]:
    """The line on which each row begins, and the rows, with the header first."""
    reader = csv.reader(io.StringIO(source.text, newline=""), delimiter=separator, strict=True)
    lines, records, begins = [], [], 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                lines.append(begins)
                records.append(row)
            begins = reader.line_num + 1
    except csv.Error as error:
        raise TraceError(
            f'{source.name}, line {begins}: quotes (") do not match from here on ({error}). '
            "Close the quote, or double it where it belongs to the text."
        ) from None
    return lines, records


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without garbage collection: there are millions of small lists, and to search them takes too long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _header(source: Source, names: list[str]) -> list[str]:
    names = [name.strip() for name in names]
    if not any(names):
        raise TraceError(f"{source.name}: the file has no header. A trace needs one, and at least one job.")
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"{source.name}: the header has column {shortened(name)} twice. Rename one.")
    return names


def _ragged(rows: pl.DataFrame, width: int) -> pl.DataFrame:
    return rows.select(
        "number",
        "line",
        pl.lit("").alias("column"),
        pl.col("text").alias("value"),
        pl.format("has {} fields, the header has {}", "fields", pl.lit(width)).alias("why"),
    )
