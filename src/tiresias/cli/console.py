"""Output: results to stdout, notes and progress to stderr. Rich is loaded only by what needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiresias.cli.errors import FAILED, Stop
from tiresias.cli.lines import Line, print_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

PIPED_WIDTH = 120
DAY_S = 86400.0


def console(*, stderr: bool = False) -> Console:
    """A Rich console that does not interpret markup, because names may contain brackets."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPED_WIDTH
    return made


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line at once."""
    print(text, end="\n" if nl else "", file=sys.stderr if err else sys.stdout, flush=True)


def confirm(question: str) -> None:
    """Ask on stderr, and end the command unless the answer is yes."""
    echo(f"{question} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        echo(err=True)  # the end of standard input leaves the cursor behind the question
    if answer.strip().lower() not in ("y", "yes"):
        raise Stop("nothing was done, because the answer was not yes", FAILED)


def show(what: RenderableType | list[Line], piped_width: int | None = None) -> None:
    """Print on stdout; in a file or a pipe without the spaces that fill up lines."""
    if isinstance(what, list):
        print_lines(what)
        return
    screen = console()
    if screen.is_terminal:
        screen.print(what)
        return
    if piped_width is not None and "COLUMNS" not in os.environ:
        screen.width = piped_width
    with screen.capture() as captured:
        screen.print(what)
    print("\n".join(line.rstrip() for line in captured.get().removesuffix("\n").split("\n")))


def notify(notes: Sequence[str]) -> None:
    """Print notes on stderr."""
    for note in notes:
        echo(f"note: {note}", err=True)


@contextmanager
def one_bar(label: str, began_at: float) -> Iterator[Callable[[int, int, float], None] | None]:
    """A progress bar of one simulation that begins at `began_at`; None if stderr is not a terminal."""
    with bars([label], began_at) as show:
        if show is None:
            yield None
        else:
            yield lambda done, total, at: show(0, done, total, at)


@contextmanager
def bars(labels: Sequence[str], began_at: float) -> Iterator[Callable[[int, int, int, float], None] | None]:
    """One progress bar per simulation, as they start; None if stderr is not a terminal."""
    with _progress() as progress:
        if progress is None:
            yield None
            return
        tasks: dict[int, int] = {}

        def show(number: int, done: int, total: int, at: float) -> None:
            if number not in tasks:
                tasks[number] = progress.add_task(labels[number], total=total, day="")
            day = f"day {(at - began_at) / DAY_S:.1f}"
            progress.update(tasks[number], completed=done, total=total, day=day)  # type: ignore[arg-type]

        yield show


@contextmanager
def cell_bar(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar that counts finished cells; silent if stderr is not a terminal."""
    with _progress(unit="cells") as progress:
        if progress is None:
            yield lambda: None
        else:
            task = progress.add_task("sweep", total=total, day="")
            progress.update(task, completed=0)
            yield lambda: progress.advance(task)


@contextmanager
def _progress(unit: str = "jobs") -> Iterator[Progress | None]:
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[day]}"),
        _rate(unit),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=screen, transient=True) as progress:
        yield progress


def _rate(unit: str):  # type: ignore[no-untyped-def]
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed and task.speed >= 1 else "")

    return Rate()
