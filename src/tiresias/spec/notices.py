"""The events that cause notices to users."""

from __future__ import annotations

EVENTS = ("ended", "failed", "preempted", "idle")
USUAL = ("ended", "failed")
LONGEST_URL = 2000
OFF = "none"  # in the place of a URL: no notices


def events_in(text: str) -> list[str]:
    """The events of a list such as `ended,failed`."""
    return [each.strip() for each in text.split(",") if each.strip()]


def check_events(text: str) -> str:
    """The list, or ValueError if it names something else."""
    odd = [each for each in events_in(text) if each not in EVENTS]
    if odd:
        raise ValueError(f"there are no notices about {odd[0]!r}; choose of {', '.join(EVENTS)}")
    return text
