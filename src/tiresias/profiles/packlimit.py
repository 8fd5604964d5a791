"""The paper's PACKLIMIT, and how it is fitted to the measured slowdowns of jobs.

With one feature, the skew, a linear classifier is a threshold. Ours is the threshold with the least regret:
a job below it that was slowed down when spread counts its slowdown beyond the acceptable one; a job above it
whose slowdown was acceptable counts the difference to the acceptable one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

PACKLIMIT = 0.378
"""Fitted to the paper's ten models; any limit from 0.15 to 0.60 separates those that suffer when spread."""
ACCEPTABLE = 1.1
"""The slowdown up to which a spread job is considered not to suffer."""
PAPER = ((0.15, 1.0), (0.60, 2.0))
"""The paper's models as (skew, slowdown): the most skewed one that does not suffer, and the least skewed one
that does."""


def refit(history: Iterable[tuple[float, float]]) -> float:
    """The limit that fits the (skew, slowdown when spread) of past jobs and of the paper's models."""
    jobs = list(history)
    return fit_limit([*PAPER, *jobs]) if jobs else PACKLIMIT


def fit_limit(
    history: Iterable[tuple[float, float]], acceptable: float = ACCEPTABLE, default: float = PACKLIMIT
) -> float:
    """The limit that best fits the (skew, slowdown when spread) of past jobs; `default` without any.

    Of equally good limits it is the one in the widest gap. The limit 0 consolidates all jobs, 1 none.
    """
    jobs = sorted(history)
    if not jobs:
        return default
    # The sum of what the first jobs lost beyond the acceptable: the best cut is where it is smallest.
    lost = [0.0, *accumulate(slowdown - acceptable for _, slowdown in jobs)]
    skews = [0.0, *(skew for skew, _ in jobs), 1.0]
    gaps = [(low, high) for low, high in pairwise(skews)]
    # No cut separates jobs of equal skew.
    cuts = [index for index, (low, high) in enumerate(gaps) if low < high or len(gaps) == 1]
    least = min(lost[index] for index in cuts)
    best = [gaps[index] for index in cuts if lost[index] <= least + 1e-9]
    low, high = max(best, key=lambda gap: (gap[1] - gap[0], gap))
    if low == 0.0 and high == skews[1]:
        return 0.0
    if high == 1.0 and low == skews[-2]:
        return 1.0
    return (low + high) / 2
