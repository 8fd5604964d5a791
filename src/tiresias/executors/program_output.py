"""The last lines of a run, without what launchers add to them: what the program itself said last. Pure.

torchrun prints after the tracebacks of its workers: lines of its own log, a traceback of its own that ends
with ChildFailedError, and a table of the failures. `accelerate launch` ends with a CalledProcessError. Both
would hide the error of the program, which is above them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACEBACK = "Traceback (most recent call last):"
PREFIX = re.compile(r"^(\[?(rank|default)?\d+\]?:\s?)+")  # that launchers put before the lines of a worker
LOGGED = re.compile(  # by torchrun itself, in the forms of several versions
    r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ |"
    r"^(\[[\d:, -]+\] )?(INFO|WARNING|ERROR)?:?torch\.distributed\.(elastic|run)\b"
)
WRAPPED = re.compile(
    r"^(torch\.[\w.]+\.)?ChildFailedError\b|"
    r"^subprocess\.CalledProcessError: Command .*(returned non-zero exit status|died with)"
)
ROOT_CAUSE, EXIT_CODE = "Root Cause", re.compile(r"^exitcode\s*: (-?\d+)\b")
FRAME = re.compile(r'^File "(?P<path>[^"]+)", line (?P<line>\d+)(, in (?P<name>.+))?$')
NOT_THE_USERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")


@dataclass(slots=True, frozen=True)
class Output:
    """The lines of the program, stripped, the first one first."""

    lines: list[str]
    root_signal: int | None = None  # that ended the worker which failed first, if the launcher names one

    def where(self, line: str) -> str:
        """Where in the user's own files the error with this last line was raised; empty if not known."""
        found = [number for number, each in enumerate(self.lines) if each == line]
        frames = []
        for above in reversed(self.lines[: found[-1]] if found else ()):
            if above == TRACEBACK:
                break
            if frame := FRAME.match(above):
                frames.append(frame)
        own = [frame for frame in frames if not any(part in frame["path"] for part in NOT_THE_USERS)]
        if not own:
            return ""
        name = f", in {own[0]['name']}" if own[0]["name"] and own[0]["name"] != "<module>" else ""
        return f"{own[0]['path'].rpartition('/')[2]}, line {own[0]['line']}{name}"


def program_output(tail: str) -> Output:
    """What the program itself said last, from the last lines of a run."""
    lines = [PREFIX.sub("", line.strip()).strip() for line in tail.splitlines()]
    lines = [line for line in lines if line]
    signal = None
    wrapped = next((number for number in reversed(range(len(lines))) if WRAPPED.match(lines[number])), None)
    if wrapped is not None:
        signal = _root_signal(lines[wrapped:])
        above = [number for number in range(wrapped) if lines[number] == TRACEBACK]
        lines = lines[: above[-1] if above else wrapped]
    return Output([line for line in lines if not LOGGED.match(line)], signal)


def _root_signal(table: list[str]) -> int | None:
    """The signal that ended the worker which failed first, by the table of torchrun."""
    begin = next((number for number, line in enumerate(table) if line.startswith(ROOT_CAUSE)), 0)
    found = next((each for line in table[begin:] if (each := EXIT_CODE.match(line))), None)
    return -int(found[1]) if found is not None and int(found[1]) < 0 else None
