"""`tir history export`: the ended jobs as a trace, to be replayed under another policy or cluster."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from tiresias.cli.console import echo, notify
from tiresias.cli.declare import Argument, Group
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import connected
from tiresias.cli.units import count

app = Group("Export the history as a trace.")

COLUMNS = (
    "id", "submitted_at", "gpus", "duration_s", "user", "tenant", "name", "group", "priority", "model",
    "preemption_cost_s", "preemptible", "resumable",
)  # fmt: skip


@app.command("export")
def export(
    out: Annotated[Path, Argument(metavar="FILE", help="File to write (.csv or .csv.gz), or - for stdout.")],
) -> None:
    """Write all ended jobs to a trace, for tir simulate FILE.

    The duration of a job is the time for which it held GPUs, less the cost of its preemptions. Jobs that
    never ran are left out.
    """
    if str(out) != "-":
        if out.is_dir():
            raise Stop(f"{out} is a directory; name a file")
        if not out.parent.is_dir():
            raise Stop(f"{out}: there is no directory {out.parent}; make it first")
    with connected() as client:
        rows = list(client.history())
    used = [row for row in rows if (row["duration_s"] or 0) > 0]
    used.sort(key=lambda row: (row["submitted_at"], row["id"]))
    text = written(used)
    if str(out) == "-":
        echo(text, nl=False)
    else:
        data = text.encode()
        out.write_bytes(gzip.compress(data, mtime=0) if out.suffix == ".gz" else data)
    idle = len(rows) - len(used)
    left_out = f"; left out {count(idle, 'job')} that never ran" if idle else ""
    notify([f"wrote {count(len(used), 'job')} to {out}{left_out}"])


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """CSV in Tiresias' own trace format."""
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow(COLUMNS)
    for row in rows:
        sheet.writerow([row.get(column, "") for column in COLUMNS])
    return text.getvalue()
