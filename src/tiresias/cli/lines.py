"""Lines of text with colours, written without a library, so that what is listed often appears at once.

A terminal gets colours and lines that fit its width; a file or a pipe gets the plain text at full width.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

UNCUT = 10_000  # the width in a file or a pipe, where nothing is cut off
USUAL_WIDTH = 80
CODES = {
    "bold": "1", "dim": "2", "reverse": "7", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36", "bright_green": "92", "bright_yellow": "93", "bright_magenta": "95",
    "bright_cyan": "96",
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Styled:
    """Text with a style: words of CODES, or none."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True, frozen=True)
class Line:
    """One line. If it is too long for a terminal, the rest goes below, `hang` columns from the left."""

    parts: tuple[str | Styled, ...] = ()
    hang: int = 0

    @classmethod
    def of(cls, text: str, style: str = "", hang: int = 0) -> Line:
        return cls((Styled(text, style) if style else text,), hang)


Lines = list[Line]


def pairs(rows: Iterable[tuple[str, str]]) -> Lines:
    """Two columns: what it is, and its value."""
    found = list(rows)
    widest = max((width(what) for what, _ in found), default=0)
    return [Line.of(f"{padded(what, widest)}  {value}", hang=widest + 2) for what, value in found]


def text(lines: Sequence[Line], room: int = UNCUT, *, colour: bool = False) -> str:
    """All lines as text, each with a line break at its end."""
    return "".join(f"{row}\n" for each in lines for row in _rows(each, room, colour))


def _rows(line: Line, room: int, colour: bool) -> list[str]:
    if room < UNCUT and len(line.parts) == 1 and width(str(line.parts[0])) > room:
        import textwrap

        [part] = line.parts
        style = part.style if isinstance(part, Styled) else ""
        cut = textwrap.wrap(
            str(part), room, subsequent_indent=" " * min(line.hang, room // 2), break_on_hyphens=False
        )
        return [_shown(Styled(row, style), colour) for row in cut]
    return ["".join(_shown(part, colour) for part in line.parts).rstrip()]


def _shown(part: str | Styled, colour: bool) -> str:
    if isinstance(part, str):
        return part
    if not colour or not part.style:
        return part.text
    codes = ";".join(CODES[word] for word in part.style.split())
    return f"\x1b[{codes}m{part.text}\x1b[0m"


# --- widths --------------------------------------------------------------------------------------------


def width(shown: str) -> int:
    """The columns that a text takes on a terminal."""
    if shown.isascii():
        return len(shown)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in shown)


def padded(shown: str, columns: int, *, right: bool = False) -> str:
    gap = " " * (columns - width(shown))
    return gap + shown if right else shown + gap


def cut(shown: str, columns: int) -> str:
    """The text, shortened with an ellipsis if it is wider."""
    if width(shown) <= columns:
        return shown
    while width(shown) > columns - 1:
        shown = shown[:-1]
    return f"{shown}…"


# --- the screen ----------------------------------------------------------------------------------------


def is_terminal() -> bool:
    return sys.stdout.isatty()


def screen_width() -> int:
    """The columns of the terminal; in a file or a pipe, nothing is cut off."""
    return size()[0] if is_terminal() else UNCUT


def size() -> tuple[int, int]:
    """The columns and the rows of the terminal."""
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        found = os.terminal_size((0, 0))
    columns = os.environ.get("COLUMNS", "")
    return (int(columns) if columns.isdecimal() and int(columns) else found.columns or USUAL_WIDTH), (
        found.lines or 25
    )


def has_colours() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")


def has_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


def print_lines(lines: Sequence[Line]) -> None:
    """Print on stdout."""
    sys.stdout.write(text(lines, screen_width(), colour=has_colours()))
    sys.stdout.flush()
