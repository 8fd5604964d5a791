"""`tir logs`: what a job printed. Its bytes go to stdout as they are; words of ours go to stderr."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tiresias.cli.live.run import write
from tiresias.cli.live.talking import Reference, talking


def logs(
    ref: Reference,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on, over later runs too, until the job has ended.")
    ] = False,
    run: Annotated[
        int | None, typer.Option("--run", metavar="N", min=1, help="Which run (default: the latest).")
    ] = None,
    worker: Annotated[
        int, typer.Option("--worker", metavar="N", min=0, help="Which worker of the gang, from 0.")
    ] = 0,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines (not with -f).")
    ] = None,
) -> None:
    """Print a job's output."""
    with talking() as client:
        if not follow:
            write(_last_lines(client.logs(ref, run=run, worker=worker), tail))
            return
        last = None
        for chunk in client.follow_logs(ref, run=run, worker=worker):
            if last not in (None, chunk.run) and sys.stderr.isatty():
                typer.echo(f"run {chunk.run}", err=True)
            last = chunk.run
            write(chunk.data)


def _last_lines(data: bytes, lines: int | None) -> bytes:
    """The end of the output; a last line without an end counts as one."""
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
