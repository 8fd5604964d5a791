"""Sentences for comparisons in which preemption does not pay.

A policy that preempts is compared with `fifo-skip`, which never does and gets much of the same gain. Policies
that know durations are left out, because their advantage is that knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiresias.cli.units import duration
from tiresias.core.defaults import KNOW_DURATIONS

WITHOUT = "fifo-skip"


def preemption_remarks(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the figures of a comparison say about preemption; nothing where it pays."""
    said = []
    several = len({each["placer"] for each in summaries}) > 1
    for placer in dict.fromkeys(each["placer"] for each in summaries):
        averages = {
            each["policy"]: each["avg_jct_s"]
            for each in summaries
            if each["placer"] == placer and each["avg_jct_s"] is not None
        }
        where = f"does not pay with {placer}" if several else "does not pay here"
        said += pays(averages, duration, where)
    return said


def pays(averages: Mapping[str, float], text: Callable[[float], str], does_not: str) -> list[str]:
    """The sentence about the policies that preempt and are no better than `fifo-skip`; none if there is none.

    `averages` maps policies to their average JCT, and `text` writes a JCT.
    """
    import tiresias.policies  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import policies

    without = averages.get(WITHOUT)
    if without is None:
        return []
    preempting = {
        name for name in policies.names() if policies.get(name).preempts and name not in KNOW_DURATIONS
    }
    worse = [
        f"{name} ({text(average)})"
        for name, average in averages.items()
        if average >= without and name in preempting
    ]
    if not worse:
        return []
    return [
        f"Preemption {does_not}: {WITHOUT}, which never preempts, has an average JCT of {text(without)}, "
        f"no longer than that of {' and '.join(worse)}."
    ]
