"""A view that is drawn again and again: in place on a terminal, otherwise one below the other.

`q` or Ctrl-C ends it, and leaves the terminal as it was.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tiresias.cli.console import echo
from tiresias.cli.lines import Lines, has_colours, is_terminal, print_lines, size, text

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the other screen, without a cursor
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
QUIT = b"qQ"


def repeat(view: Callable[[], Lines], interval_s: float) -> None:
    """Draw the view until `q` or Ctrl-C."""
    try:
        if not is_terminal():
            while True:
                print_lines(view())
                echo()
                time.sleep(interval_s)
        with _other_screen():
            while True:
                _draw(view())
                if _quits_within(interval_s):
                    return
    except KeyboardInterrupt:
        return


def _draw(lines: Lines) -> None:
    columns, rows = size()
    shown = text(lines, columns, colour=has_colours()).splitlines()[: max(1, rows - 1)]
    sys.stdout.write(HOME + "".join(f"{row}{REST_OF_LINE}\r\n" for row in shown) + REST_OF_SCREEN)
    sys.stdout.flush()


@contextmanager
def _other_screen() -> Iterator[None]:
    """The terminal's second screen, and keys as they are pressed if standard input is a terminal."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    sys.stdout.write(ENTER)
    try:
        if before is not None:
            tty.setcbreak(sys.stdin)
        yield
    finally:
        if before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _quits_within(seconds: float) -> bool:
    """Whether `q` is pressed before the time is over; other keys do nothing."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            keys = os.read(sys.stdin.fileno(), 64)
            if not keys or any(key in QUIT for key in keys):
                return True
    return False
