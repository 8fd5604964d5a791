"""`tir ls`, `tir show`, `tir why`: list and show jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from tiresias.cli.console import echo, show
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.lines import Line, Lines, is_terminal, size
from tiresias.cli.live import job_text
from tiresias.cli.live.connection import MaybeReferences, Reference, connected, print_json, print_json_line
from tiresias.cli.live.screen import repeat
from tiresias.cli.plugins import AsOutput, Output

ME = "me"


class Listing(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


Interval = Annotated[
    float,
    Option("--interval", metavar="SECONDS", min=0.1, help="Time between two updates (with --watch)."),
]


def ls(
    refs: MaybeReferences = None,
    everything: Annotated[
        bool, Option("--all", "-a", help="Also list ended jobs, the latest first.")
    ] = False,
    user: Annotated[
        str | None, Option("--user", "-u", metavar="USER", help="Only jobs of this user (me: yours).")
    ] = None,
    phase: Annotated[
        str | None, Option("--phase", "-s", metavar="PHASE,…", help="Only jobs in these phases.")
    ] = None,
    limit: Annotated[
        int | None, Option("--limit", "-l", metavar="N", min=1, help="List at most N jobs.")
    ] = None,
    watch: Annotated[bool, Option("--watch", "-w", help="Update the list until q or Ctrl-C.")] = False,
    interval: Interval = 2.0,
    output: Annotated[Listing, Option("--output", "-o", help="Output format.")] = Listing.TABLE,
) -> None:
    """List jobs in the order in which they are served."""
    phases = _phases(phase)
    with connected() as client:
        whom = client.whoami()["user"] if user == ME else user

        def look() -> list[dict[str, Any]]:
            ended = everything or bool(phases & set(job_text.ENDED))
            return _found(client.jobs(all=ended, user=whom, refs=refs or ()), phases, limit)

        if output is Listing.JSON and not watch:
            print_json(look())
        elif output is Listing.JSON:
            while True:
                print_json_line(look())
                time.sleep(interval)
        elif watch:
            repeat(lambda: _view(look(), output), interval)
        else:
            found = look()
            show(_table(found, output))
            if not found and not everything and not phases and is_terminal():
                echo("jobs that have ended: tir ls --all", err=True)


def show_job(ref: Reference, output: AsOutput = Output.TABLE) -> None:
    """Show a job with its options, its progress and its runs."""
    with connected() as client:
        job = client.job(ref)
    if output is Output.JSON:
        print_json(job)
        return
    from tiresias.cli.live.job_tables import detail

    show(detail(job, time.time()))


def why(ref: Reference, output: AsOutput = Output.TABLE) -> None:
    """Say why a job waits, runs or has ended, and what to do."""
    with connected() as client:
        reason = client.why(ref)
    if output is Output.JSON:
        print_json(reason)
        return
    from tiresias.cli.live import job_tables

    show(job_tables.why(reason))


def _phases(text: str | None) -> set[str]:
    names = {name.strip().upper() for name in (text or "").split(",") if name.strip()}
    if strange := sorted(names - set(job_text.PHASES)):
        raise Stop(f"--phase {strange[0]!r}: choose from {', '.join(job_text.PHASES)}")
    return names


def _found(jobs: Iterable[dict[str, Any]], phases: set[str], limit: int | None) -> list[dict[str, Any]]:
    """The jobs to list; pages are fetched only as far as they are needed."""
    found: list[dict[str, Any]] = []
    for job in jobs:
        if not phases or job["phase"] in phases:
            found.append(job)
        if len(found) == limit:
            break
    return found


def _table(jobs: list[dict[str, Any]], output: Listing) -> Lines:
    from tiresias.cli.live.job_tables import listing

    return listing(jobs, time.time(), wide=output is Listing.WIDE)


def _view(jobs: list[dict[str, Any]], output: Listing) -> Lines:
    """The rows that fit the screen, below a line that counts all jobs."""
    from tiresias.cli.live.job_tables import summary_line

    rows = max(1, size()[1] - 5) if is_terminal() else len(jobs)
    left = len(jobs) - rows
    rest = [Line.of(f"… and {left:,} more")] if left > 0 else []
    head = Line.of(f"{time.strftime('%H:%M:%S')}  {summary_line(jobs)}")
    return [head, Line(), *_table(jobs[:rows], output), *rest]
