"""The progress of `tiresias demo`: a live table on a terminal, otherwise one line per event."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiresias.cli.console import console, echo
from tiresias.cli.errors import FAILED, Stop
from tiresias.cli.live import job_text
from tiresias.cli.units import NOTHING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tiresias.api.client import Client

LOOK_AGAIN_S = 0.25
BAR = 24
HAPPENED = {  # what is printed of a run if there is no terminal
    "RunStarted": "runs",
    "RunRevoked": "must save and stop",
    "RunExited": "run ended: ",
}


Jobs = list[dict[str, Any]]
More = Callable[[Jobs], bool]
"""Submits what is due, whose ids it adds to the list that is watched; returns whether nothing is left."""


def watch(client: Client, ids: Sequence[int], patience_s: float, more: More) -> Jobs:
    """Show the jobs until all have ended; returns their summaries in the order of the ids."""
    if console().is_terminal:
        return _table(client, ids, patience_s, more)
    return _lines(client, ids, patience_s, more)


def wait(client: Client, ids: Sequence[int], patience_s: float) -> Jobs:
    """Wait until all of these jobs have ended, and show nothing."""
    return _until_ended(client, ids, patience_s, lambda jobs: None, lambda jobs: True)


def _until_ended(
    client: Client, ids: Sequence[int], patience_s: float, look: Callable[[Jobs], None], more: More
) -> Jobs:
    deadline = time.monotonic() + patience_s
    while True:
        found = {job["id"]: job for job in client.jobs(all=True)}
        jobs = [found[id] for id in ids if id in found]
        look(jobs)
        if more(jobs) and len(jobs) == len(ids) and all(job["phase"] in job_text.ENDED for job in jobs):
            return jobs
        if time.monotonic() > deadline:
            raise Stop(f"not all trainings have ended after {patience_s:g} s; something is wrong", FAILED)
        time.sleep(LOOK_AGAIN_S)


def _table(client: Client, ids: Sequence[int], patience_s: float, more: More) -> Jobs:
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:

        def look(jobs: Jobs) -> None:
            live.update(view(jobs, client.nodes(), time.time()), refresh=True)

        return _until_ended(client, ids, patience_s, look, more)


def view(jobs: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]], now: float) -> RenderableType:
    """The jobs that hold GPUs, and the progress of each job."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from tiresias.cli.tables import plain_table

    names = {job["id"]: job["name"] for job in jobs}
    slots = [slot for node in nodes for slot in node["slots"]]
    held = "  ".join(f"{names.get(slot['job_id'], '·'):^10}" for slot in slots)
    ended = all(job["finished_at"] is not None for job in jobs)
    until = max(job["finished_at"] for job in jobs) if ended else now
    seconds = max(0.0, until - min(job["submitted_at"] for job in jobs))
    table = plain_table("JOB", "GPUS", "PHASE", "", "STEPS", "RUNS", "PREEMPTED", "QUEUE")
    for column in (2, 3):
        table.columns[column].justify = "left"
    for job in jobs:
        progress = job["progress"] or {}
        fraction = 1.0 if job["phase"] == "SUCCEEDED" else progress.get("fraction") or 0.0
        table.add_row(
            job["name"],
            str(job["gpus"]),
            Text(job["phase"], style=job_text.COLOURS.get(job["phase"], "")),
            ProgressBar(1.0, fraction, BAR, complete_style="green", finished_style="green"),
            str(progress.get("step") or 0),
            str(job["runs"]),
            str(job["preemptions"]),
            NOTHING if job["queue"] is None else f"Q{job['queue']}",
        )
    return Group(Text(f"{seconds:5.1f} s   GPUs  {held}\n"), table)


def _lines(client: Client, ids: Sequence[int], patience_s: float, more: More) -> Jobs:
    seen = 0

    def look(jobs: Jobs) -> None:
        nonlocal seen
        names = {job["id"]: job["name"] for job in jobs}
        began_at = min(job["submitted_at"] for job in jobs)
        for event in client.events(since=seen):
            seen = event["seq"]
            happened = HAPPENED.get(event["kind"])
            if happened is not None and event["job_id"] in names:
                how = event["text"].partition("ended: ")[2]
                echo(f"{event['at'] - began_at:6.1f} s  {names[event['job_id']]:<10} {happened}{how}")

    return _until_ended(client, ids, patience_s, look, more)
