"""`tir usage`: GPU time and jobs by user or tenant."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from tiresias.cli.console import show
from tiresias.cli.declare import Option
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.times import duration_s, short
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import significant

HOUR_S = 3600.0


class By(StrEnum):
    USER = "user"
    TENANT = "tenant"


def usage(
    by: Annotated[By, Option("--by", help="One row per user, or per tenant.")] = By.USER,
    since: Annotated[
        str | None, Option("--since", metavar="30d", help="Only jobs submitted within this time.")
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Show the GPU time and the jobs of each user or tenant.

    Policies that favour jobs with little service reward users who split their work. SHORT counts jobs that
    held GPUs for less than five minutes, AGAIN jobs whose command had been submitted before. LOST are the
    GPU-hours of work that preempted jobs lost because they had not saved it.
    """
    since_s = None if since is None else duration_s(since, "--since")
    with connected() as client:
        rows = client.usage(str(by), since_s)
    if output is Output.JSON:
        print_json(rows)
        return
    if not rows:
        show("no jobs have been submitted")
        return
    from tiresias.cli.live.fitted_tables import grid

    figures = ("JOBS", "ACTIVE", "GPUS NOW", "GPU-HOURS", "LOST", "MEAN WAIT", "SHORT", "AGAIN")
    lines = [
        [
            plain(row["who"]) or "(none)",
            f"{row['jobs']:,}",
            f"{row['active_jobs']:,}",
            f"{row['running_gpus']:,}",
            significant(row["service_gpu_s"] / HOUR_S),
            significant(row["lost_gpu_s"] / HOUR_S),
            short(row["mean_wait_s"]),
            f"{row['short_jobs']:,}",
            f"{row['resubmitted']:,}",
        ]
        for row in rows
    ]
    show(grid([by.upper(), *figures], lines, right=figures, cut=(by.upper(),)))
