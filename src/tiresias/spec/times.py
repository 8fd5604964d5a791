"""Durations and instants as people write them. Pure: `now` is an argument.

A text that is not understood is a ValueError; the caller adds the name of the option and the text.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

UNITS_S = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")


def read_duration(text: str) -> float:
    """Seconds from `90s`, `8h`, `1d12h`, `2-08:30:00`. A bare number is refused: tools differ on its unit."""
    words = text.strip().lower()
    if clock := _CLOCK.fullmatch(words):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return days * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds
    parts = _PART.findall(words)
    if not parts or _PART.sub("", words).strip() or any(unit not in UNITS_S for _, unit in parts):
        bare = re.fullmatch(r"\d+(\.\d+)?", words)
        hint = f"write {words}s or {words}m" if bare else "write for example 90s, 30m, 8h, 1d12h or 08:30:00"
        raise ValueError(f"not a duration; {hint}")
    return sum(float(number) * UNITS_S[unit] for number, unit in parts)


def read_instant(text: str, now: datetime) -> float:
    """Epoch seconds from `+2h`, `now+2h`, `22:00` (the next one) or `2026-01-31 22:00`.

    Local time, unless the text names a time zone.
    """
    words = text.strip()
    if words.lower().startswith(("+", "now")):
        rest = re.sub(r"^now\s*", "", words.lower()).removeprefix("+")
        return now.timestamp() + (read_duration(rest) if rest else 0.0)
    if clock := re.fullmatch(r"(\d{1,2}):(\d\d)", words):
        hour, minute = int(clock[1]), int(clock[2])
        if hour < 24 and minute < 60:
            due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (due if due > now else due + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "write for example +2h, 22:00 or 2026-01-31T22:00"
        raise ValueError(f"not an instant; {hint}") from None
