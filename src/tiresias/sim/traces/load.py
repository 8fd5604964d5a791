"""Loads a trace from a file of any known format, or generates it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import SCHEMA, Trace
from tiresias.sim.traces.builtin import PREFIX, generate
from tiresias.sim.traces.draft import finish
from tiresias.sim.traces.readers import own
from tiresias.sim.traces.registry import named, recognised
from tiresias.sim.traces.source import Source, open_source


def load(
    source: str | Path,
    *,
    format: str | None = None,
    skip_bad_rows: bool = False,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
) -> Trace:
    """The trace in a file (plain or gzip), or the generated trace `builtin:NAME` for a seed.

    The format is recognised from the content of the file unless `format` names it. A bad row raises
    TraceError unless `skip_bad_rows` is true: then bad rows are left out and counted. `columns` maps our own
    names of columns to those of a CSV that has others, such as {"gpus": "num_gpu"}.
    """
    if str(source).startswith(PREFIX):
        if format is not None:
            raise TraceError(f"{source}: a builtin trace has no format. Leave out --format {format}.")
        if columns:
            raise TraceError(f"{source}: a builtin trace has our own columns. Leave out --map.")
        return generate(str(source), seed=seed)
    form = named(format) if format is not None else None
    opened = open_source(source)
    if columns:
        opened = with_own_names(opened, columns)
        form = form or own.FORMAT
    if form is None:
        form = recognised(opened)
    return finish(form.read(opened), skip_bad_rows=skip_bad_rows)


def with_own_names(source: Source, columns: Mapping[str, str]) -> Source:
    """The same table with our own names in its header; a column that had such a name already is set aside."""
    start = len(source.text) - len(source.text.lstrip())
    line, end, rest = source.text[start:].partition("\n")
    header = [name.strip() for name in next(csv.reader([line.rstrip("\r")]))]
    for name, column in columns.items():
        if name not in SCHEMA:
            raise TraceError(f"--map {name}={column}: there is no column {name}; known: {', '.join(SCHEMA)}.")
        if column not in header:
            raise TraceError(
                f"--map {name}={column}: {source.name} has no column {column!r}; it has {', '.join(header)}."
            )
    ours = {column: name for name, column in columns.items()}
    renamed = [ours.get(name, f"{name} (not mapped)" if name in columns else name) for name in header]
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(renamed)
    return Source(source.name, written.getvalue() + end + rest)
