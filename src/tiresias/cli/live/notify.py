"""`tir notify`: which notices you get about your jobs, and where."""

from __future__ import annotations

from typing import Annotated, Any

from tiresias.cli.console import echo
from tiresias.cli.declare import Argument, Group, Option
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.plugins import AsOutput, Output
from tiresias.spec.notices import EVENTS, USUAL, events_in

app = Group("Choose which notices you get about your jobs, and where.")


@app.command("show")
def show_notify(
    secret: Annotated[
        bool, Option("--secret", help="Print only the secret with which notices are signed.")
    ] = False,
    output: AsOutput = Output.TABLE,
) -> None:
    """Show which notices you get about jobs that say nothing else."""
    with connected() as client:
        found = client.notify()
    if secret:
        echo(found["secret"])
    else:
        _print(found, output)


@app.command("set")
def set_notify(
    url: Annotated[str, Argument(metavar="URL", help="https://…, or slack+https://… for the form of Slack.")],
    on: Annotated[str, Option("--on", metavar="EVENTS", help=f"A list of {', '.join(EVENTS)}.")] = ",".join(
        USUAL
    ),
    output: AsOutput = Output.TABLE,
) -> None:
    """Set which notices you get, and where."""
    with connected() as client:
        _print(client.set_notify(url, events_in(on)), output)


@app.command("off")
def no_notify(output: AsOutput = Output.TABLE) -> None:
    """Get no notices, except about jobs with --notify."""
    with connected() as client:
        _print(client.set_notify(""), output)


@app.command("test")
def send_test(output: AsOutput = Output.TABLE) -> None:
    """Send a notice that is about nothing."""
    with connected() as client:
        found = client.test_notify()
    if output is Output.JSON:
        print_json(found)
    else:
        echo("the test is being sent; `tir notify show` says whether a delivery failed")


def _print(found: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(found)
        return
    if found["url"]:
        echo(f"{', '.join(found['on'])}: {plain(found['url'])}")
    else:
        echo("you get no notices, except about jobs with --notify")
    if found["waiting"]:
        echo(f"{found['waiting']:,} not delivered yet; {plain(found['problem']) or 'they are being sent'}")
