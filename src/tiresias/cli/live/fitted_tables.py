"""Tables that fit the terminal without wrapping; in a file or a pipe they have their full width."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.cli.lines import Line, Lines, Styled, cut, has_unicode, padded, screen_width, width

GAP = 2
LEAST = 8  # the least width of a column that is shortened
Cell = str | Styled


def grid(
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Lines:
    """A table. Columns in `cut` may be shortened, the longest first; those in `drop` may be left out."""
    columns = dict(zip(headers, zip(*rows, strict=True), strict=True)) if rows else {}
    wanted = {name: max(width(str(each)) for each in (name, *columns.get(name, ()))) for name in headers}
    widths = _fitted(wanted, cut, drop, screen_width())
    shown = [(number, widths[name], name in right) for number, name in enumerate(headers) if name in widths]
    total = _total(list(widths.values()))
    head = _row([Styled(name, "bold") for name in headers], shown)
    return [head, Line(("─" * total if has_unicode() else "-" * total,)), *(_row(row, shown) for row in rows)]


def _fitted(wanted: dict[str, int], cut: Sequence[str], drop: Sequence[str], room: int) -> dict[str, int]:
    """The columns that are shown, with their widths."""
    widths = dict(wanted)
    least = {name: min(columns, LEAST) if name in cut else columns for name, columns in wanted.items()}
    for name in drop:
        if _total([least[each] for each in widths]) > room:
            widths.pop(name, None)
    for _ in range(_total(list(widths.values())) - room):
        longer = [each for each in widths if widths[each] > least[each]]
        if longer:
            widths[max(longer, key=widths.__getitem__)] -= 1
    return widths


def _row(cells: Sequence[Cell], shown: Sequence[tuple[int, int, bool]]) -> Line:
    parts: list[Cell] = []
    for number, columns, is_right in shown:
        cell = cells[number]
        fitted = padded(cut(str(cell), columns), columns, right=is_right)
        parts += [" " * GAP] if parts else []
        parts.append(Styled(fitted, cell.style) if isinstance(cell, Styled) else fitted)
    return Line(tuple(parts))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
