"""Draws cumulative distributions with characters, for a terminal or a log file.

Rules: a pure function of the values and the size of the plot. With colour each curve is a line of braille
dots in its own colour; without colour each curve has its own character, so that a plot that is pasted into a
message can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

COLOURS = ("bright_blue", "yellow", "cyan", "magenta", "red", "green", "white")
"""The terminal's own colours, so that they suit its background; red and green come late in the list."""

MARKERS = "ox+*#@%&=~"
MIN_WIDTH = 40
TICKS: tuple[tuple[float, str], ...] = (
    (0.001, "1ms"),
    (0.01, "10ms"),
    (0.1, "0.1s"),
    (1, "1s"),
    (10, "10s"),
    (60, "1m"),
    (600, "10m"),
    (3600, "1h"),
    (21600, "6h"),
    (86400, "1d"),
    (864000, "10d"),
    (8640000, "100d"),
    (86400000, "1000d"),
)
MORE_TICKS: tuple[tuple[float, str], ...] = (
    (120, "2m"),
    (300, "5m"),
    (1200, "20m"),
    (1800, "30m"),
    (7200, "2h"),
    (10800, "3h"),
    (43200, "12h"),
)
"""Also shown where fewer than five of TICKS are within the axis."""
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column."""

Values = NDArray[np.float64]


def cdf(
    series: Mapping[str, Sequence[float] | Values],
    *,
    width: int,
    height: int = 13,
    unicode: bool = True,
    colour: bool = True,
) -> Text:
    """Draw the share of values up to each duration in seconds, one curve per name, on a log axis.

    The result is a hint instead of a plot if `width` is below MIN_WIDTH characters.
    """
    curves = {name: np.sort(np.asarray(values, dtype=np.float64)) for name, values in series.items()}
    curves = {name: values[np.isfinite(values)] for name, values in curves.items()}
    curves = {name: values for name, values in curves.items() if values.size}
    if not curves:
        return Text("(no finished jobs to draw)")
    if width < MIN_WIDTH:
        return Text(f"(a terminal of {MIN_WIDTH} columns or more shows a plot here)")
    columns = width - 7
    low, high = _span(list(curves.values()))
    if unicode and colour:
        rows = _braille(list(curves.values()), low, high, columns, height)
    else:
        rows = _marked(list(curves.values()), low, high, columns, height)
    return Text("\n").join(
        [*_with_shares(rows, unicode), *_axis(low, high, columns, unicode), _legend(curves, unicode, colour)]
    )


def _span(curves: Sequence[Values]) -> tuple[float, float]:
    """The durations at the two ends of the axis, without the shortest 0.5 % and never the same."""
    low = min(max(float(np.quantile(values, 0.005)), 1e-3) for values in curves)
    high = max(max(float(values[-1]), 1e-3) for values in curves)
    return (low, high) if high > low * 2 else (low / 2, max(high, low) * 2)


def _levels(values: Values, low: float, high: float, points: int, levels: int) -> list[tuple[int, int]]:
    """The curve as (x, level from the top), from its first step to its last."""
    at = np.geomspace(low, high, points)
    count = np.searchsorted(values, at * (1 + 1e-9), side="right")
    level = np.rint((1 - count / values.size) * (levels - 1)).astype(np.int64)
    first = int(np.searchsorted(count, 1))
    last = int(np.searchsorted(count, values.size))
    return [(x, int(level[x])) for x in range(first, min(last + 1, points))]


def _braille(curves: Sequence[Values], low: float, high: float, columns: int, height: int) -> list[Text]:
    dots = np.zeros((len(curves), height, columns), dtype=np.int64)
    for number, values in enumerate(curves):
        below = height * 4 - 1
        for x, y in _levels(values, low, high, columns * 2, height * 4):
            for dot in range(y, max(below, y + 1)):  # joined to the step before
                dots[number, dot // 4, x // 2] |= DOTS[dot % 4][x % 2]
            below = y
    return [_coloured(dots[:, line, :]) for line in range(height)]


def _coloured(dots: NDArray[np.int64]) -> Text:
    """One row of characters; where curves cross, the one with most dots gives the colour."""
    row = Text()
    for cell in dots.T:
        bits = [int(each) for each in cell]
        owner = max(range(len(bits)), key=lambda number: (bits[number].bit_count(), -number))
        merged = int(np.bitwise_or.reduce(cell))
        row.append(chr(0x2800 + merged) if merged else " ", COLOURS[owner % len(COLOURS)] if merged else "")
    return row


def _marked(curves: Sequence[Values], low: float, high: float, columns: int, height: int) -> list[Text]:
    grid = [[" "] * columns for _ in range(height)]
    for number in reversed(range(len(curves))):
        for x, y in _levels(curves[number], low, high, columns, height):
            grid[y][x] = MARKERS[number % len(MARKERS)]
    return [Text("".join(row)) for row in grid]


def _with_shares(rows: list[Text], unicode: bool) -> list[Text]:
    """The rows with the axis of shares on their left."""
    last = len(rows) - 1
    labels = {round(last * (1 - share)): f"{share:.0%}" for share in (0, 0.25, 0.5, 0.75, 1)}
    plain, ticked = ("│", "┤") if unicode else ("|", "+")
    return [
        Text.assemble(f"{labels.get(line, ''):>5} {ticked if line in labels else plain}", row)
        for line, row in enumerate(rows)
    ]


def _axis(low: float, high: float, columns: int, unicode: bool) -> list[Text]:
    """The axis of durations: a line with ticks, and labels where they do not touch."""
    corner, line, tick = ("└", "─", "┬") if unicode else ("+", "-", "+")
    axis = [line] * columns
    labels = [" "] * (columns + 7)
    free = 0
    for value, label in _ticks(low, high):
        x = round((columns - 1) * float(np.log(value / low) / np.log(high / low)))
        axis[x] = tick
        start = max(0, min(7 + x - len(label) // 2, columns + 7 - len(label)))
        if start >= free:
            labels[start : start + len(label)] = label
            free = start + len(label) + 1
    return [Text(" " * 6 + corner + "".join(axis)), Text("".join(labels).rstrip())]


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    ticks = [tick for tick in TICKS if low <= tick[0] <= high]
    more = [tick for tick in MORE_TICKS if low <= tick[0] <= high] if len(ticks) < 5 else []
    return sorted(ticks + more)


def _legend(names: Mapping[str, object], unicode: bool, colour: bool) -> Text:
    legend = Text(" " * 7)
    for number, name in enumerate(names):
        if unicode and colour:
            legend.append("━━ ", COLOURS[number % len(COLOURS)])
        else:
            legend.append(MARKERS[number % len(MARKERS)] + " ")
        legend.append(name + "   ")
    legend.rstrip()
    return legend
