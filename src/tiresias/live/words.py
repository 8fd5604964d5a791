"""Phrases that several answers share."""

from __future__ import annotations

MINUTE_S, HOUR_S = 60.0, 3600.0


def lasting(seconds: float) -> str:
    """A duration as people say it: 8 s, 12 min, 3.5 h."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def work(seconds: float, gpus: int) -> str:
    """What runs of a job took: 12 min x 8 GPUs."""
    return f"{lasting(seconds)} x {'1 GPU' if gpus == 1 else f'{gpus} GPUs'}"


def began_anew(lost_s: float, gpus: int, times: int = 1) -> str:
    often = "" if times < 2 else f" {times} times"
    return f"began anew{often}: {work(lost_s, gpus)} lost"


def not_stopped(grace_s: float) -> str:
    """Of a run that was killed because its grace period was over."""
    return f"did not stop within {lasting(grace_s)}; killed" if grace_s else "killed at once"


def killed(how: str) -> str:
    """The same as a sentence; `how` is what `not_stopped` returned, or empty."""
    if not how:
        return ""
    return f"It {how.replace('; killed', ' and was killed')}." if ";" in how else f"It was {how}."
