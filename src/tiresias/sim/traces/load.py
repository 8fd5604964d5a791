"""Reading a trace, whatever it comes from."""

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
    """The trace in a file (plain or gzip), or a generated one (`builtin:NAME`, by `seed`).

    The format is recognised from the file's content unless named. A bad row stops the reading with a
    TraceError unless `skip_bad_rows`, which leaves bad rows out and counts them.
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
