"""The paper's PACKLIMIT, and how it is fitted again from what jobs have shown.

With one feature, the skew, a linear classifier is a cut on a line. Ours is the cut with the least regret:
a job below it that suffered when spread counts its slowdown beyond the acceptable one, a job above it that
would not have suffered counts what it stayed below.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

PACKLIMIT = 0.378
"""Fitted to the paper's ten models; any cut from 0.15 to 0.60 tells those that suffer from the others."""
ACCEPTABLE = 1.1
"""A slowdown up to which a spread job is said not to suffer."""
PAPER = ((0.15, 1.0), (0.60, 2.0))
"""What the paper's models say, as (skew, slowdown): of those that do not suffer the most skewed, and of those
that do the least skewed."""


def refit(history: Iterable[tuple[float, float]]) -> float:
    """The limit by what jobs have shown, (skew, slowdown when spread), beside what the paper's models did."""
    shown = list(history)
    return fit_limit([*PAPER, *shown]) if shown else PACKLIMIT


def fit_limit(
    history: Iterable[tuple[float, float]], acceptable: float = ACCEPTABLE, default: float = PACKLIMIT
) -> float:
    """The limit that fits (skew, slowdown when spread) of past jobs best; `default` without any.

    Where several cuts are as good, the one in the widest gap: 0 consolidates all, 1 none.
    """
    jobs = sorted(history)
    if not jobs:
        return default
    # What jobs up to here lost beyond the acceptable: the cut after its least value regrets least.
    lost = [0.0, *accumulate(slowdown - acceptable for _, slowdown in jobs)]
    skews = [0.0, *(skew for skew, _ in jobs), 1.0]
    gaps = [(low, high) for low, high in pairwise(skews)]
    # no cut parts jobs of equal skew
    cuts = [place for place, (low, high) in enumerate(gaps) if low < high or len(gaps) == 1]
    least = min(lost[place] for place in cuts)
    best = [gaps[place] for place in cuts if lost[place] <= least + 1e-9]
    low, high = max(best, key=lambda gap: (gap[1] - gap[0], gap))
    if low == 0.0 and high == skews[1]:
        return 0.0
    if high == 1.0 and low == skews[-2]:
        return 1.0
    return (low + high) / 2
