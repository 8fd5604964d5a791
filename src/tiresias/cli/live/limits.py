"""`tir limits show`, `tir limits set`: how much one user may have at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tiresias.cli.console import show
from tiresias.cli.errors import Stop
from tiresias.cli.live.jobs import UNCUT
from tiresias.cli.live.talking import print_json, talking
from tiresias.cli.live.words import plain
from tiresias.cli.plugins import AsOutput, Output

app = typer.Typer(no_args_is_help=True, help="Show limits of users, or set them.")
NONE = "none"


@app.command("show")
def show_limits(output: AsOutput = Output.TABLE) -> None:
    """Show every limit; * is everybody who has none of their own."""
    with talking() as client:
        _tell(client.limits(), output)


@app.command("set")
def set_limits(
    user: Annotated[str, typer.Argument(metavar="USER", help="A user, or '*' for all others.")],
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="N", help="GPUs held at once (none: no limit).")
    ] = None,
    jobs: Annotated[
        str | None, typer.Option("--jobs", metavar="N", help="Jobs not ended at once (none: no limit).")
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Limit a user; what is not given stays as it is."""
    if gpus is None and jobs is None:
        raise Stop("nothing to set; give --gpus N, --jobs N, or none to lift a limit")
    with talking() as client:
        now = client.limits().get(user) or {}
        client.set_limits(
            user,
            max_running_gpus=_number(gpus, "--gpus", now.get("max_running_gpus")),
            max_active_jobs=_number(jobs, "--jobs", now.get("max_active_jobs")),
        )
        _tell(client.limits(), output)


def _number(text: str | None, option: str, now: int | None) -> int | None:
    if text is None:
        return now
    if text == NONE:
        return None
    if not text.isdecimal():
        raise Stop(f"{option} {text!r}: give a whole number, or {NONE}")
    return int(text)


def _tell(limits: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(limits)
        return
    if not limits:
        show("there are no limits")
        return
    from tiresias.cli.live.grids import grid

    figures = ("GPUS AT ONCE", "JOBS AT ONCE")
    names = ["* (all others)" if user == "*" else plain(user) for user in limits]
    numbers = [[NONE if n is None else f"{n:,}" for n in each.values()] for each in limits.values()]
    rows = [[name, *each] for name, each in zip(names, numbers, strict=True)]
    show(grid(("USER", *figures), rows, right=figures, cut=("USER",)), UNCUT)
