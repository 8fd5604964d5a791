"""`tiresias profile -- COMMAND`: run a training for a while and infer its model from what it sends."""

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
        "--workers",
        metavar="N",
        callback=inputs.from_one_up,
        help="Number of processes to start, as one gang.",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations", metavar="N", callback=inputs.from_one_up, help="Number of iterations to observe."
    ),
]
Seconds = Annotated[
    float,
    typer.Option("--seconds", metavar="N", callback=inputs.above_zero, help="Longest time to observe."),
]


def observe_command(
    model: str | None, command: Sequence[str], workers: int, iterations: int, seconds: float
) -> tuple[Observed, ModelProfile | None]:
    """Run the command and infer its model; None if that is not possible.

    The output of the command goes to stderr, so that stdout has the result only.
    """
    from tiresias.executors.interrupts import exiting_on_signals
    from tiresias.observe import observe

    if model is not None:
        raise typer.BadParameter(f"{model!r} and a command after --; give one of them", param_hint="MODEL")
    limits = f"for {count(iterations, 'iteration')}, {seconds:g} s at most"
    notify([f"observing {shlex.join(command)} {limits}"])
    output = _stderr()
    try:
        with exiting_on_signals():
            seen = observe(command, workers=workers, iterations=iterations, seconds=seconds, output=output)
    finally:
        os.close(output)
    notify(seen.notes)
    return seen, seen.profile(name_of(command))


def show_alone(seen: Observed, as_json: bool, save: Path | None) -> None:
    """Print what was observed when no model can be inferred from it."""
    from tiresias.observe import ObserveError

    if as_json:
        typer.echo(seen.as_json())
    else:
        show(observed_page(seen))
    if save is not None:
        raise ObserveError(f"--save {save}: not even the size of the model is known; {seen.why}")


def _stderr() -> int:
    """The file that the command gets as its standard output."""
    sys.stderr.flush()
    try:
        return os.dup(sys.stderr.fileno())
    except OSError:  # it is not a file, as in a test
        return os.open(os.devnull, os.O_WRONLY)


def name_of(command: Sequence[str]) -> str:
    """A name for the model: the script, the module or the program."""
    for word in command:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return Path(command[0]).name


def observed_page(seen: Observed) -> RenderableType:
    """What was observed, as a page for people."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from tiresias.cli.profile_tables import size, span

    lines = Table.grid(padding=(0, 2))
    lines.add_row(Text("observed", style="bold"), f"{count(seen.iterations, 'iteration')}, {_who(seen)}")
    lines.add_row("period", f"{span(seen.period_s)}, computing and sending")
    lines.add_row("sent", f"{size(seen.bytes_per_iteration)} per iteration, by all processes together")
    lines.add_row("model", size(seen.model_bytes) if seen.model_bytes else "size not visible")
    lines.add_row("skew", "not visible" if seen.skew is None else f"{percent(seen.skew)} of the bytes sent")
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

    table = plain_table("messages of", "per iteration", "bytes", "share")
    total = sum(each * times for each, times in seen.messages)
    for each, times in seen.messages[:MOST_ROWS]:
        table.add_row(size(each), f"{times:,}", size(each * times), percent(each * times / total))
    rest = seen.messages[MOST_ROWS:]
    if rest:
        left = sum(each * times for each, times in rest)
        table.add_row("smaller", f"{sum(times for _, times in rest):,}", size(left), percent(left / total))
    return table
