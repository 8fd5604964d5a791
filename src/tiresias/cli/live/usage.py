"""`tir usage`: who got what."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tiresias.cli.console import show
from tiresias.cli.live.jobs import UNCUT
from tiresias.cli.live.talking import print_json, talking
from tiresias.cli.live.times import duration_s, short
from tiresias.cli.live.words import plain
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import significant

HOUR_S = 3600.0


class By(StrEnum):
    USER = "user"
    TENANT = "tenant"


def usage(
    by: Annotated[By, typer.Option("--by", help="A line a user or a tenant.")] = By.USER,
    since: Annotated[
        str | None, typer.Option("--since", metavar="30d", help="Only jobs submitted since then.")
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Show who got how much, who waits, and who splits or resubmits.

    Policies that favour jobs with little service reward many small jobs: SHORT counts jobs that held GPUs
    for less than five minutes, AGAIN those whose very command was submitted before.
    """
    since_s = None if since is None else duration_s(since, "--since")
    with talking() as client:
        rows = client.usage(str(by), since_s)
    if output is Output.JSON:
        print_json(rows)
        return
    if not rows:
        show("nobody has submitted anything")
        return
    from tiresias.cli.live.grids import grid

    figures = ("JOBS", "ACTIVE", "GPUS NOW", "GPU-HOURS", "MEAN WAIT", "SHORT", "AGAIN")
    lines = [
        [
            plain(row["who"]) or "(none)",
            f"{row['jobs']:,}",
            f"{row['active_jobs']:,}",
            f"{row['running_gpus']:,}",
            significant(row["service_gpu_s"] / HOUR_S),
            short(row["mean_wait_s"]),
            f"{row['short_jobs']:,}",
            f"{row['resubmitted']:,}",
        ]
        for row in rows
    ]
    show(grid([by.upper(), *figures], lines, right=figures, cut=(by.upper(),)), UNCUT)
