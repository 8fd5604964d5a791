"""`tir events`: the events of the manager, one line per event."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from tiresias.cli.console import echo
from tiresias.cli.declare import Argument, Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import connected, print_json_line
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.times import when
from tiresias.cli.plugins import AsOutput, Output

NOISE = ("TimerFired", "RunProgressed")  # not interesting to people


def events(
    ref: Annotated[
        str | None, Argument(metavar="JOB", help="Only events of this job (id or name). Default: all.")
    ] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Wait for more events, until Ctrl-C.")] = False,
    since: Annotated[
        int | None, Option("--since", metavar="N", min=0, help="Only events after number N.")
    ] = None,
    job: Annotated[str | None, Option("--job", metavar="JOB", help="The same as the argument JOB.")] = None,
    last: Annotated[
        int,
        Option("--last", "-l", metavar="N", min=1, help="At most the last N events (without --since)."),
    ] = 50,
    output: AsOutput = Output.TABLE,
) -> None:
    """Print events: grants, preemptions, exits, changes.

    With -o json, one JSON object per line, timers included.
    """
    if ref is not None and job is not None:
        raise Stop(f"name one job: {ref!r}, or --job {job}")
    job = ref if ref is not None else job
    with connected() as client:
        seen = since or 0
        if job is not None:
            id = int(client.job(job)["summary"]["id"])
            past: Iterable[dict[str, Any]] = client.job_events(id)
        else:
            id = None
            past = client.events(seen)
        shown = (each for each in past if each["seq"] > seen and _is_shown(each, output))
        for each in shown if since is not None else deque(shown, maxlen=last):
            seen = each["seq"]
            _print(each, output)
        if follow:
            for each in _of(id, client.events(seen, follow=True)):
                if _is_shown(each, output):
                    _print(each, output)


def _is_shown(event: dict[str, Any], output: Output) -> bool:
    return output is Output.JSON or event["kind"] not in NOISE


def _of(job: int | None, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in events if job is None or each["job_id"] == job)


def _print(event: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json_line(event)
        return
    who = "" if event["job_id"] is None else f"job {event['job_id']}"
    at = when(event["at"], time.time())
    echo(f"{event['seq']:>6}  {at}  {who:<9} {event['kind']:<14} {plain(event['text'])}".rstrip())
