"""`tir events`: what has happened, one line each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from tiresias.cli.live.talking import print_json_line, talking
from tiresias.cli.live.times import when
from tiresias.cli.live.words import plain
from tiresias.cli.plugins import AsOutput, Output

NOISE = ("TimerFired", "RunProgressed")  # they change nothing that people look for


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as things happen.")] = False,
    since: Annotated[
        int | None, typer.Option("--since", metavar="N", min=0, help="Only those after number N.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help="Only those of this job, by id or name.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", "-l", metavar="N", min=1, help="At most the last N (without --since).")
    ] = 50,
    output: AsOutput = Output.TABLE,
) -> None:
    """Print what happened: grants, preemptions, exits, changes.

    With -o json one JSON object a line, timers included.
    """
    with talking() as client:
        seen = since or 0
        if job is not None:
            id = int(client.job(job)["summary"]["id"])
            past: Iterable[dict[str, Any]] = client.job_events(id)
        else:
            id = None
            past = client.events(seen)
        shown = (each for each in past if each["seq"] > seen and _is_told(each, output))
        for each in shown if since is not None else deque(shown, maxlen=last):
            seen = each["seq"]
            _print(each, output)
        if follow:
            for each in _of(id, client.events(seen, follow=True)):
                if _is_told(each, output):
                    _print(each, output)


def _is_told(event: dict[str, Any], output: Output) -> bool:
    return output is Output.JSON or event["kind"] not in NOISE


def _of(job: int | None, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in events if job is None or each["job_id"] == job)


def _print(event: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json_line(event)
        return
    who = "" if event["job_id"] is None else f"job {event['job_id']}"
    at = when(event["at"], time.time())
    typer.echo(f"{event['seq']:>6}  {at}  {who:<9} {event['kind']:<14} {plain(event['text'])}".rstrip())
