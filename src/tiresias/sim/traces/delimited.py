"""Delimited text as a Sheet, each row with its line in the file.

Text without quotes is split a column at a time; only a file with quotes goes row by row.
"""

from __future__ import annotations

import csv
import io

import polars as pl

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.draft import shortened
from tiresias.sim.traces.sheet import Sheet
from tiresias.sim.traces.source import Source


def split(source: Source, separator: str = ",", *, quotes: bool = True) -> Sheet:
    """The table of a delimited text with a header; blank lines are no rows."""
    sheet = _by_rows(source, separator) if quotes and '"' in source.text else _by_columns(source, separator)
    if not sheet.cells.height and not sheet.problems[0].height:
        raise TraceError(f"{source.name}: the file has a header but no job.")
    return sheet


def _by_columns(source: Source, separator: str) -> Sheet:
    text = pl.Series("text", [source.text]).str.split("\n").explode().str.strip_chars_end("\r")
    rows = pl.DataFrame({"line": pl.int_range(1, len(text) + 1, eager=True), "text": text})
    rows = rows.filter(pl.col("text").str.strip_chars() != "")
    header = _header(source, rows["text"][0].split(separator))
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
    """For text with quotes, where a field may hold separators and line ends."""
    records = _records(source, separator)
    header = _header(source, records[0][1])
    numbered = [(number, line, cells) for number, (line, cells) in enumerate(records) if number]
    right = [row for row in numbered if len(row[2]) == len(header)]
    wrong = [row for row in numbered if len(row[2]) != len(header)]
    columns = {name: [cells[place] for _, _, cells in right] for place, name in enumerate(header)}
    rows = {"number": [row[0] for row in right], "line": [row[1] for row in right]}
    ragged = pl.DataFrame(
        [(number, line, separator.join(cells), len(cells)) for number, line, cells in wrong],
        schema={"number": pl.Int64(), "line": pl.Int64(), "text": pl.String(), "fields": pl.Int64()},
        orient="row",
    )
    return Sheet(
        source,
        pl.DataFrame(columns, schema={name: pl.String() for name in header}),
        pl.DataFrame(rows, schema={"number": pl.Int64(), "line": pl.Int64()}),
        _ragged(ragged, len(header)),
    )


def _records(source: Source, separator: str) -> list[tuple[int, list[str]]]:
    """Rows with the line each begins on."""
    reader = csv.reader(io.StringIO(source.text, newline=""), delimiter=separator, strict=True)
    records, begins = [], 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                records.append((begins, row))
            begins = reader.line_num + 1
    except csv.Error as error:
        raise TraceError(
            f'{source.name}, line {begins}: quotes (") do not match from here on ({error}). '
            "Close the quote, or double it where it belongs to the text."
        ) from None
    return records


def _header(source: Source, names: list[str]) -> list[str]:
    names = [name.strip() for name in names]
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
