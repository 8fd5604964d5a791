"""`tir ls`, `tir show`, `tir why`: list and show jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli.console import console, show
from tiresias.cli.errors import Stop
from tiresias.cli.live import job_text
from tiresias.cli.live.connection import Reference, connected, print_json, print_json_line
from tiresias.cli.plugins import AsOutput, Output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tiresias.api.client import Client

UNCUT = 10_000
ME = "me"


class Listing(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


Interval = Annotated[
    float,
    typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two updates (with --watch)."),
]


def ls(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also list ended jobs, the latest first.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="Only jobs of this user (me: yours).")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", "-s", metavar="PHASE,…", help="Only jobs in these phases.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", metavar="N", min=1, help="List at most N jobs.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update the list until Ctrl-C.")] = False,
    interval: Interval = 2.0,
    output: Annotated[Listing, typer.Option("--output", "-o", help="Output format.")] = Listing.TABLE,
) -> None:
    """List jobs in the order in which they are served."""
    phases = _phases(phase)
    with connected() as client:
        whom = client.whoami()["user"] if user == ME else user

        def look() -> list[dict[str, Any]]:
            return _found(client, everything or bool(phases & set(job_text.ENDED)), whom, phases, limit)

        if output is Listing.JSON and not watch:
            print_json(look())
        elif output is Listing.JSON:
            while True:
                print_json_line(look())
                time.sleep(interval)
        elif watch:
            repeat(lambda: _view(look(), output), interval)
        else:
            show(_table(look(), output), UNCUT)


def show_job(ref: Reference, output: AsOutput = Output.TABLE) -> None:
    """Show a job with its options, its progress and its runs."""
    with connected() as client:
        job = client.job(ref)
    if output is Output.JSON:
        print_json(job)
        return
    from tiresias.cli.live.job_tables import detail

    show(detail(job, time.time()), UNCUT)


def why(ref: Reference, output: AsOutput = Output.TABLE) -> None:
    """Say why a job waits, runs or has ended, and what to do."""
    with connected() as client:
        reason = client.why(ref)
    if output is Output.JSON:
        print_json(reason)
        return
    from tiresias.cli.live import job_tables

    show(job_tables.why(reason), UNCUT)


def _phases(text: str | None) -> set[str]:
    names = {name.strip().upper() for name in (text or "").split(",") if name.strip()}
    if strange := sorted(names - set(job_text.PHASES)):
        raise Stop(f"--phase {strange[0]!r}: choose from {', '.join(job_text.PHASES)}")
    return names


def _found(
    client: Client, everything: bool, user: str | None, phases: set[str], limit: int | None
) -> list[dict[str, Any]]:
    """The jobs to list; pages are fetched only as far as they are needed."""
    found: list[dict[str, Any]] = []
    for job in client.jobs(all=everything, user=user):
        if not phases or job["phase"] in phases:
            found.append(job)
        if len(found) == limit:
            break
    return found


def _table(jobs: list[dict[str, Any]], output: Listing) -> RenderableType:
    from tiresias.cli.live.job_tables import listing

    return listing(jobs, time.time(), wide=output is Listing.WIDE)


def _view(jobs: list[dict[str, Any]], output: Listing) -> RenderableType:
    """The rows that fit the screen, below a line that counts all jobs."""
    from rich.console import Group
    from rich.text import Text

    from tiresias.cli.live.job_tables import summary_line

    rows = max(1, console().height - 5) if console().is_terminal else len(jobs)
    left = len(jobs) - rows
    rest = [Text(f"… and {left:,} more")] if left > 0 else []
    head = Text(f"{time.strftime('%H:%M:%S')}  {summary_line(jobs)}\n")
    return Group(head, _table(jobs[:rows], output), *rest)


def repeat(view: Callable[[], RenderableType], interval_s: float) -> None:
    """Draw the view again and again until Ctrl-C: in place on a terminal, otherwise one below the other."""
    screen = console()
    try:
        if not screen.is_terminal:
            while True:
                show(view(), UNCUT)
                typer.echo()
                time.sleep(interval_s)
        from rich.live import Live

        with Live(view(), console=screen, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval_s)
                live.update(view(), refresh=True)
    except KeyboardInterrupt:
        return
