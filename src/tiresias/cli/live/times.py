"""Durations and instants on the command line. Pure: `now` is an argument."""

from __future__ import annotations

import re
from datetime import datetime

from tiresias.cli.errors import Stop
from tiresias.spec.times import DAY_S, HOUR_S, MINUTE_S, read_duration

_SLURM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


def duration_s(text: str, option: str) -> float:
    """Seconds from `90s`, `8h`, `1d12h` or `2-08:30:00`."""
    try:
        return read_duration(text)
    except ValueError as error:
        raise Stop(f"{option} {text!r}: {error}") from None


def slurm_duration_s(text: str, option: str) -> float:
    """As after `#SBATCH --time`: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    found = _SLURM.fullmatch(text.strip())
    if found is None:
        raise Stop(f"{option} {text!r}: not a time of Slurm; write minutes, H:M:S or D-H:M:S")
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        sizes = (HOUR_S, MINUTE_S, 1.0)
    else:
        sizes = (HOUR_S, MINUTE_S, 1.0) if len(numbers) == 3 else (MINUTE_S, 1.0, 0.0)
    return int(days or 0) * DAY_S + sum(n * size for n, size in zip(numbers, sizes, strict=False))


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
