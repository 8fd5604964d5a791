"""`tiresias profile -- COMMAND`: a training is run for some iterations, its model told from what it sends."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiresias.cli import inputs
from tiresias.cli.console import notify, show
from tiresias.cli.units import count, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tiresias.observe import Observed
    from tiresias.profiles.model import ModelProfile

MOST_ROWS = 12


Workers = Annotated[
    int,
    typer.Option(
        "--workers", metavar="N", callback=inputs.from_one_up, help="Start COMMAND so often, as a gang."
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations", metavar="N", callback=inputs.from_one_up, help="Stop it when so many were seen."
    ),
]
Seconds = Annotated[
    float,
    typer.Option("--seconds", metavar="N", callback=inputs.above_zero, help="Observe it so long at most."),
]


def observe_command(
    model: str | None, command: Sequence[str], workers: int, iterations: int, seconds: float
) -> tuple[Observed, ModelProfile | None]:
    """Run it, and tell its model, None where that cannot be told.

    Its output goes to stderr, so that stdout has figures only.
    """
    from tiresias.executors.interrupts import exiting_on_signals
    from tiresias.observe import observe

    if model is not None:
        raise typer.BadParameter(f"{model!r} and a command after --: give one of them", param_hint="MODEL")
    told = f"until {count(iterations, 'iteration')} were seen, {seconds:g} s at most"
    notify([f"observing {shlex.join(command)} {told}"])
    output = _stderr()
    try:
        with exiting_on_signals():
            seen = observe(command, workers=workers, iterations=iterations, seconds=seconds, output=output)
    finally:
        os.close(output)
    notify(seen.notes)
    return seen, seen.profile(name_of(command))


def show_alone(seen: Observed, as_json: bool, save: Path | None) -> None:
    """What was observed, where no model can be told from it."""
    from tiresias.observe import ObserveError

    if as_json:
        typer.echo(seen.as_json())
    else:
        show(observed_page(seen))
    if save is not None:
        raise ObserveError(f"--save {save}: not even the size of the model can be told; {seen.why}")


def _stderr() -> int:
    """What the command gets for its standard output."""
    sys.stderr.flush()
    try:
        return os.dup(sys.stderr.fileno())
    except OSError:  # it is no file, as in a test
        return os.open(os.devnull, os.O_WRONLY)


def name_of(command: Sequence[str]) -> str:
    """The script, or the last module that is run, or the program."""
    for word in command:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return Path(command[0]).name


def observed_page(seen: Observed) -> RenderableType:
    """What was observed, for people."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from tiresias.cli.profile_tables import size, span

    lines = Table.grid(padding=(0, 2))
    lines.add_row(Text("observed", style="bold"), f"{count(seen.iterations, 'iteration')}, {_who(seen)}")
    lines.add_row("period", f"{span(seen.period_s)}, of computing and sending")
    lines.add_row("sent", f"{size(seen.bytes_per_iteration)} an iteration, by all together")
    lines.add_row("model", size(seen.model_bytes) if seen.model_bytes else "size not visible")
    lines.add_row("skew", "not visible" if seen.skew is None else f"{percent(seen.skew)} of what is sent")
    lines.add_row("because", seen.why)
    return Group(lines, Text(), _messages(seen)) if seen.messages else lines


def _who(seen: Observed) -> str:
    processes = count(seen.processes, "process", "processes")
    if seen.servers:
        return f"{count(seen.workers, 'worker')} and {count(seen.servers, 'parameter server')}"
    return f"{processes}, {seen.pattern}"


def _messages(seen: Observed) -> RenderableType:
    from tiresias.cli.profile_tables import size
    from tiresias.cli.tables import plain_table

    table = plain_table("messages of", "an iteration", "bytes", "share")
    total = sum(each * times for each, times in seen.messages)
    for each, times in seen.messages[:MOST_ROWS]:
        table.add_row(size(each), f"{times:,}", size(each * times), percent(each * times / total))
    rest = seen.messages[MOST_ROWS:]
    if rest:
        left = sum(each * times for each, times in rest)
        table.add_row("smaller", f"{sum(times for _, times in rest):,}", size(left), percent(left / total))
    return table
