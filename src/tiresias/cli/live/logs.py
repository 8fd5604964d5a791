"""`tir logs`: the output of a job. Its bytes go to stdout unchanged; messages go to stderr."""

from __future__ import annotations

import sys
from typing import Annotated

from tiresias.cli.console import echo
from tiresias.cli.declare import Option
from tiresias.cli.live.connection import Reference, connected
from tiresias.cli.live.run import write


def logs(
    ref: Reference,
    follow: Annotated[
        bool,
        Option("--follow", "-f", help="Follow the output, also of later runs, until the job has ended."),
    ] = False,
    run: Annotated[
        int | None, Option("--run", metavar="N", min=1, help="Number of the run. Default: the latest.")
    ] = None,
    worker: Annotated[int, Option("--worker", metavar="N", min=0, help="Number of the worker, from 0.")] = 0,
    tail: Annotated[
        int | None,
        Option("--tail", metavar="N", min=0, help="Only the last N lines (not with --follow)."),
    ] = None,
) -> None:
    """Print the output of a job."""
    with connected() as client:
        if not follow:
            write(_last_lines(client.logs(ref, run=run, worker=worker), tail))
            return
        last = None
        for chunk in client.follow_logs(ref, run=run, worker=worker):
            if last not in (None, chunk.run) and sys.stderr.isatty():
                echo(f"run {chunk.run}", err=True)
            last = chunk.run
            write(chunk.data)


def _last_lines(data: bytes, lines: int | None) -> bytes:
    """The last lines; a last line without a line break counts as one."""
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
