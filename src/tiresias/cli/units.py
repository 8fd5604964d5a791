"""Numbers and durations as text for people."""

from __future__ import annotations

from collections.abc import Iterable

LONG = {"h": "hours", "min": "minutes", "s": "seconds"}
UNITS_S = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
NOTHING = "–"


def duration(seconds: float | None) -> str:
    """A duration in its largest unit, such as 1.5 h."""
    if seconds is None:
        return NOTHING
    size, unit = next(((size, unit) for size, unit in UNITS_S if abs(seconds) >= size), UNITS_S[-1])
    return f"{significant(seconds / size)} {unit}"


def common_unit(values_s: Iterable[float | None]) -> tuple[float, str]:
    """One unit for a column: the largest, up to hours, in which the smallest value is 0.1 or more."""
    smallest = min((value for value in values_s if value), default=0.0)
    size, unit = next((each for each in UNITS_S[1:] if smallest >= each[0] / 10), UNITS_S[-1])
    return size, LONG[unit]


def significant(value: float | None) -> str:
    """A number with three significant digits, or with all digits before the point."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share:.1%}"


def ratio(value: float | None, base: float | None) -> str:
    """How many times `base` the value is."""
    return NOTHING if value is None or not base else f"{value / base:.2f}x"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
