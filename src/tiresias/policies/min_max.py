"""The min-max form of finish-time fairness: fractions of time that make the worst rho as small as possible.

A job that runs for the fraction x of the time from now on ends after elapsed + left / x. Its rho is at most r
if x is at least left / (r x ideal - elapsed), so a given r is possible if these fractions, each at most 1,
need no more GPUs than there are. The smallest possible r is found by bisection. This is the program that
Gavel and later papers solve in place of Themis' auction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS = 40
MOST = 1e9

Floats = NDArray[np.float64]


def fractions(rho: float, elapsed_s: Floats, left_s: Floats, ideal_s: Floats) -> Floats:
    """The fraction of the time for which each job must run for this rho; above 1: it is out of reach."""
    within = rho * ideal_s - elapsed_s
    return np.where(within > 0, left_s / np.maximum(within, 1e-9), np.inf)


def least_worst_rho(
    elapsed_s: Floats, left_s: Floats, ideal_s: Floats, demand: Floats, gpus: int
) -> tuple[float, Floats]:
    """The smallest rho that all jobs can have at once, and the fractions of time that it takes."""
    low = float(np.max((elapsed_s + left_s) / ideal_s, initial=0.0))  # whoever runs all the time
    if np.sum(np.minimum(fractions(low, elapsed_s, left_s, ideal_s), 1.0) * demand) <= gpus:
        return low, np.minimum(fractions(low, elapsed_s, left_s, ideal_s), 1.0)
    high = low
    while high < MOST and np.sum(fractions(high, elapsed_s, left_s, ideal_s) * demand) > gpus:
        low, high = high, 2 * high + 1
    for _ in range(STEPS):
        middle = (low + high) / 2
        if np.sum(np.minimum(fractions(middle, elapsed_s, left_s, ideal_s), 1.0) * demand) > gpus:
            low = middle
        else:
            high = middle
    return high, np.minimum(fractions(high, elapsed_s, left_s, ideal_s), 1.0)
