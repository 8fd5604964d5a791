"""Reads instants: seconds, or a date and time in ISO 8601.

A time without a zone is UTC, so that a trace means the same on every machine and no change to or from
daylight saving time puts a gap or an overlap in it.
"""

from __future__ import annotations

import polars as pl

_ISO = (
    r"^(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<minute>\d{2}:\d{2})(?P<second>:\d{2}(?:\.\d+)?)?)?"
    r" ?(?P<zone>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})?$"
)


def epoch_seconds(cells: pl.Series) -> pl.Series:
    """Seconds since 1970 (numbers are taken as they are); null where the text is not an instant."""
    values = cells.cast(pl.Float64, strict=False)
    rest = values.is_null()
    if not rest.any():
        return values
    plain = _plain(cells)
    values = values.fill_null(plain) if not rest.all() else plain
    rest = values.is_null() & (cells != "")
    return values.fill_null(_iso(cells)) if rest.any() else values


def _plain(cells: pl.Series) -> pl.Series:
    """The usual form, which needs no regular expression: YYYY-MM-DD HH:MM:SS."""
    spaced = cells.str.replace("T", " ", literal=True)
    return _seconds(spaced.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False))


def _iso(cells: pl.Series) -> pl.Series:
    """Every other form of ISO 8601: fractions, no seconds, a date alone, a zone."""
    parts = cells.str.extract_groups(_ISO).struct.unnest()
    clock = parts["minute"].fill_null("00:00") + parts["second"].fill_null(":00")
    local = _seconds((parts["date"] + " " + clock).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False))
    zone = parts["zone"].fill_null("Z").str.replace("Z", "+00", literal=True)
    zone = zone.str.replace(":", "", literal=True)
    sign = pl.select(pl.when(zone.str.starts_with("-")).then(-1.0).otherwise(1.0)).to_series()
    hours = zone.str.slice(1, 2).cast(pl.Float64)
    minutes = zone.str.slice(3, 2).cast(pl.Float64, strict=False).fill_null(0.0)
    return local - sign * (hours * 3600 + minutes * 60)


def _seconds(moments: pl.Series) -> pl.Series:
    return moments.dt.epoch("us") / 1e6
