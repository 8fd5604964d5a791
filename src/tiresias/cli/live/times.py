"""Durations and instants as people write and read them. Pure: `now` is an argument."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from tiresias.cli.errors import Stop

UNITS_S = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")
_SLURM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0


def duration_s(text: str, what: str) -> float:
    """`90s`, `8h`, `1d12h`, `2-08:30:00`. A bare number is refused: tools differ on what it counts."""
    words = text.strip().lower()
    if clock := _CLOCK.fullmatch(words):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return days * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds
    parts = _PART.findall(words)
    if not parts or _PART.sub("", words).strip() or any(unit not in UNITS_S for _, unit in parts):
        bare = re.fullmatch(r"\d+(\.\d+)?", words)
        hint = f"write {words}s or {words}m" if bare else "write for example 90s, 30m, 8h, 1d12h or 08:30:00"
        raise Stop(f"{what} {text!r} is not a duration; {hint}")
    return sum(float(number) * UNITS_S[unit] for number, unit in parts)


def slurm_duration_s(text: str, what: str) -> float:
    """As after `#SBATCH --time`: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    found = _SLURM.fullmatch(text.strip())
    if found is None:
        raise Stop(f"{what} {text!r} is not a time of Slurm; write minutes, H:M:S or D-H:M:S")
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        sizes = (HOUR_S, MINUTE_S, 1.0)
    else:
        sizes = (HOUR_S, MINUTE_S, 1.0) if len(numbers) == 3 else (MINUTE_S, 1.0, 0.0)
    return int(days or 0) * DAY_S + sum(n * size for n, size in zip(numbers, sizes, strict=False))


def instant_at(text: str, what: str, now: datetime) -> float:
    """`+2h`, `now+2h`, `22:00` (the next one), `2026-01-31 22:00`, in local time unless it has a zone."""
    words = text.strip()
    if words.lower().startswith(("+", "now")):
        rest = re.sub(r"^now\s*", "", words.lower()).removeprefix("+")
        return now.timestamp() + (duration_s(rest, what) if rest else 0.0)
    if clock := re.fullmatch(r"(\d{1,2}):(\d\d)", words):
        hour, minute = int(clock[1]), int(clock[2])
        if hour < 24 and minute < 60:
            due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (due if due > now else due + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        raise Stop(
            f"{what} {text!r} is not an instant; write for example +2h, 22:00 or 2026-01-31T22:00"
        ) from None


def short(seconds: float | None) -> str:
    """A duration for a narrow column: 45s, 12m, 3h20m, 2d4h."""
    if seconds is None:
        return "–"
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m" if whole >= 600 or not whole % 60 else f"{whole // 60}m{whole % 60:02}s"
    days, rest = divmod(whole, 86400)
    hours, minutes = divmod(rest // 60, 60)
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    return f"{hours}h{minutes:02}m" if minutes else f"{hours}h"


def when(at: float | None, now: float) -> str:
    """An instant in local time: the clock today, the date before."""
    if at is None:
        return "–"
    moment, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    return moment.strftime("%H:%M:%S" if moment.date() == today.date() else "%Y-%m-%d %H:%M")
