"""Loads a trace from a file of any known format, or generates it."""

from __future__ import annotations

from pathlib import Path

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import Trace
from tiresias.sim.traces.builtin import PREFIX, generate
from tiresias.sim.traces.draft import finish
from tiresias.sim.traces.registry import named, recognised
from tiresias.sim.traces.source import open_source


def load(
    source: str | Path, *, format: str | None = None, skip_bad_rows: bool = False, seed: int = 0
) -> Trace:
    """The trace in a file (plain or gzip), or the generated trace `builtin:NAME` for a seed.

    The format is recognised from the content of the file unless `format` names it. A bad row raises
    TraceError unless `skip_bad_rows` is true: then bad rows are left out and counted.
    """
    if str(source).startswith(PREFIX):
        if format is not None:
            raise TraceError(f"{source}: a builtin trace has no format. Leave out --format {format}.")
        return generate(str(source), seed=seed)
    form = named(format) if format is not None else None
    opened = open_source(source)
    if form is None:
        form = recognised(opened)
    return finish(form.read(opened), skip_bad_rows=skip_bad_rows)
