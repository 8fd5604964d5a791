"""Options that several policies share."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.plugins import PROTECT, option


def seconds(text: str) -> float:
    """A non-negative number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("write a number of seconds, 0 or more, such as 300")
    return value


def seconds_or_auto(text: str) -> float | str:
    """A number of seconds, or `auto`: as measured."""
    if isinstance(text, str) and text.strip() == "auto":
        return "auto"
    try:
        return seconds(text)
    except ValueError:
        raise ValueError("write a number of seconds, 0 or more, such as 60, or auto") from None


def positive_seconds(text: str) -> float:
    value = seconds(text)
    if value == 0:
        raise ValueError("must be more than 0 seconds")
    return value


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError("write a whole number") from None
    if value < 0:
        raise ValueError("must be 0 or more")
    return value


def number(text: str) -> int:
    value = count(text)
    if value < 1:
        raise ValueError("must be 1 or more")
    return value


def factor(text: str) -> float:
    value = float(text)
    if not 1 <= value < float("inf"):
        raise ValueError("must be 1 or more")
    return value


def share(text: str) -> float:
    """A share of the cluster, from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("write a share from 0 to 1, such as 0.25")
    return value


def factor_below_one(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError("must be more than 0 and at most 1")
    return value


def one_of(*choices: str):  # type: ignore[no-untyped-def]
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"choose one of {', '.join(choices)}")
        return text

    return parse


@dataclass(slots=True)
class PreemptiveOptions:
    min_run_s: float = option(0.0, "seconds a run may not be preempted after it got its slots", seconds)
    protect: float = option(
        PROTECT, "share of the GPUs on which runs of jobs that do not save are not preempted; 0: none", share
    )
