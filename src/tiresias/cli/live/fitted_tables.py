"""Tables that fit the terminal without wrapping; in a file or a pipe they have their full width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from tiresias.cli.console import console
from tiresias.cli.tables import plain_table

GAP = 2
LEAST = 8  # the least width of a column that is shortened
UNCUT = 10_000  # the width in a file or a pipe, where nothing is cut off
Cell = str | Text


def grid(
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> RenderableType:
    """A table. Columns in `cut` may be shortened, the longest first; those in `drop` may be left out."""
    shown = list(headers)
    room = screen_width()
    columns = dict(zip(headers, zip(*rows, strict=True), strict=True)) if rows else {}
    widths = {name: max(map(_width, [name, *columns.get(name, ())])) for name in headers}
    least = {name: min(width, LEAST) if name in cut else width for name, width in widths.items()}
    for name in drop:
        if _total([least[each] for each in shown]) > room and name in shown:
            shown.remove(name)
    over = _total([widths[each] for each in shown]) - room
    for _ in range(over):
        longer = [each for each in shown if widths[each] > least[each]]
        if longer:
            widths[max(longer, key=widths.__getitem__)] -= 1
    table = plain_table()
    for name in shown:
        side = "right" if name in right else "left"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", width=widths[name])  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(cell for name, cell in zip(headers, row, strict=True) if name in shown))
    return table


def screen_width() -> int:
    screen = console()
    return screen.width if screen.is_terminal else UNCUT


def _width(cell: Cell) -> int:
    return cell_len(str(cell))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
