"""Whether numbers look like a sample of a normal distribution: skewness and D'Agostino's test of it.

The test turns the skewness into a number that is standard normal for samples of a normal distribution of
eight or more numbers. Networks have few layers, and tests for large samples would never reject them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import asinh, erfc, log, sqrt
from statistics import fmean
from typing import NamedTuple

FEWEST = 8


class Normality(NamedTuple):
    """`p` is the probability of a sample of a normal distribution that is as skewed; 1 if it is unknown."""

    skewness: float
    p: float


def normality(numbers: Sequence[float]) -> Normality:
    count = len(numbers)
    mean = fmean(numbers) if numbers else 0.0
    second = fmean((each - mean) ** 2 for each in numbers) if numbers else 0.0
    if second == 0.0:
        return Normality(0.0, 1.0)
    skewness = fmean((each - mean) ** 3 for each in numbers) / second**1.5
    if count < FEWEST:
        return Normality(skewness, 1.0)
    return Normality(skewness, erfc(abs(_standard(skewness, count)) / sqrt(2)))


def _standard(skewness: float, n: int) -> float:
    """The skewness of `n` numbers as a standard normal number (D'Agostino 1970)."""
    y = skewness * sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    kurtosis = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    w2 = sqrt(2 * (kurtosis - 1)) - 1
    return asinh(y / sqrt(2 / (w2 - 1))) / sqrt(0.5 * log(w2))
