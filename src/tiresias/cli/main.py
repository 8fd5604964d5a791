"""The program `tiresias` (short: `tir`).

A command line that begins with a verb and is right is carried out at once (`quick.py`); every other one is
Typer's (`program.py`). Heavy libraries are imported by the commands that need them, so that the program
starts fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from tiresias.cli.declare import Group
from tiresias.cli.ending import forget_stdout, guarded, load_plugins
from tiresias.cli.errors import FAILED, INTERRUPTED
from tiresias.cli.quick import call, in_group
from tiresias.cli.verbs import VERBS

NAMES = ("tiresias", "tir")
COMPLETING = ("_TIR_COMPLETE", "_TIRESIAS_COMPLETE")  # a shell asks for completions


def run() -> None:
    """The entry point of the programs `tiresias` and `tir`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode then shows ?
    words, name = sys.argv[1:], _called()
    try:
        if (command := _quick(words, name)) is not None:
            sys.exit(guarded(command))
        from tiresias.cli.program import program

        program(words)(prog_name=name)
    except KeyboardInterrupt:  # before or after the command itself
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        forget_stdout()
        sys.exit(FAILED)


def _quick(words: list[str], name: str) -> Callable[[], None] | None:
    """The call that the words mean, or None if Typer must read them."""
    verb = VERBS.get(words[0]) if words else None
    if verb is None or any(each in os.environ for each in COMPLETING):
        return None
    found, path = verb.load(), f"{name} {words[0]}"
    if isinstance(found, Group):
        command = in_group(found, words[1:], path)
    else:
        command = call(found, words[1:], path, carries=verb.carries) if callable(found) else None
    if command is None:
        return None

    def carried_out() -> None:
        load_plugins([])
        command()

    return carried_out


def _called() -> str:
    """The name of the program in its help, also when it was started as a module or from another program."""
    name = os.path.basename(sys.argv[0])
    return name if name in NAMES else NAMES[0]


if __name__ == "__main__":
    run()
