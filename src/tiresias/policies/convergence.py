"""When trainings will have converged, from the losses that they have reported so far (Optimus, section 3.1).

The loss after `e` epochs is taken for l(e) = 1 / (b0 e + b1) + b2 with non-negative coefficients. For a given
b2 this is linear, 1 / (l - b2) = b0 e + b1, so non-negative least squares give b0 and b1; b2 is searched on a
grid that is refined twice. Each equation is weighted by (l - b2)^2, which makes its error that of the loss
itself. Losses are divided by the largest one, and a loss outside of what its neighbours allow is replaced by
the mean of the two next to it. A training has converged when an epoch lowers its loss by less than `drop` of
the largest.

All trainings of a round are fitted together, because one by one they would take most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_POINTS = 5  # with fewer, the curve could be almost any
WINDOW = 5  # neighbours on each side that bound a loss
STEPS, ROUNDS = 8, 4  # values of b2 that are tried at once, and how often the grid is made finer
TINY = 1e-12

Point = tuple[float, float]
"""Epochs done, and the loss then."""


def convergence(histories: Sequence[Sequence[Point]], drop: float) -> list[float | None]:
    """For each training the number of epochs after which it will have converged; None: it cannot be said.

    A history is in rising order of epochs. What is found for it does not depend on the others.
    """
    found: list[float | None] = [None] * len(histories)
    groups: dict[
        int, list[int]
    ] = {}  # by length, because sums over rows of other lengths are rounded otherwise
    for nth, points in enumerate(histories):
        if len(points) >= LEAST_POINTS and max(points, key=itemgetter(1))[1] > 0:
            groups.setdefault(1 << (len(points) - 1).bit_length(), []).append(nth)
    for length, group in groups.items():
        for nth, end in zip(group, _ends([histories[nth] for nth in group], length, drop), strict=True):
            found[nth] = end
    return found


def _ends(histories: Sequence[Sequence[Point]], length: int, drop: float) -> list[float]:
    import numpy as np  # not before: it delays each start of a manager

    table = np.full((len(histories), length, 2), np.nan)
    for row, points in enumerate(histories):
        table[row, : len(points)] = points
    epochs, losses = table[:, :, 0], table[:, :, 1]
    is_there = ~np.isnan(losses)
    clean = _without_outliers(losses)
    scaled = clean / np.nanmax(clean, axis=1, keepdims=True)
    b0, b1 = _fitted(np.where(is_there, epochs, 0.0), np.where(is_there, scaled, 1.0), is_there)
    # The last epoch lowers the loss by 1 / (x - b0) - 1 / x at x = b0 e + b1: solved for e.
    x = (b0 + np.sqrt(b0 * b0 + 4.0 * b0 / drop)) / 2.0
    ends = np.where(b0 > TINY, (x - b1) / np.maximum(b0, TINY), 0.0)  # 0: the loss does not fall
    return [max(0.0, float(end)) for end in ends]


def _without_outliers(losses: Floats) -> Floats:
    """Losses are at least the smallest of the next ones and at most the largest of those before."""
    import numpy as np

    rows, length = losses.shape
    padded = np.full((rows, length + 2 * WINDOW), np.nan)
    padded[:, WINDOW:-WINDOW] = losses
    before = np.full(losses.shape, -np.inf)
    after = np.full(losses.shape, np.inf)
    for shift in range(1, WINDOW + 1):
        before = np.fmax(before, padded[:, WINDOW - shift : WINDOW - shift + length])
        after = np.fmin(after, padded[:, WINDOW + shift : WINDOW + shift + length])
    before[before == -np.inf] = np.inf  # the first has none before it
    after[after == np.inf] = -np.inf
    is_outlier = (losses > before) | (losses < after)
    left, right = padded[:, WINDOW - 1 : WINDOW - 1 + length], padded[:, WINDOW + 1 : WINDOW + 1 + length]
    mean = np.where(np.isnan(left), right, np.where(np.isnan(right), left, (left + right) / 2.0))
    return np.where(is_outlier & ~np.isnan(mean), mean, losses)


def _fitted(epochs: Floats, losses: Floats, is_there: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """b0 and b1 of each row, for the b2 with which the curve is nearest to the losses."""
    import numpy as np

    rows = np.arange(len(losses))
    low = np.zeros(len(losses))
    high = np.where(is_there, losses, np.inf).min(axis=1) * (1.0 - 1e-6)
    best = np.full(len(losses), np.inf)
    b0, b1 = np.zeros(len(losses)), np.ones(len(losses))
    for _ in range(ROUNDS):
        tried = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, STEPS)
        some_b0, some_b1, errors = _for_each(tried, epochs, losses, is_there)
        nth = errors.argmin(axis=1)
        is_better = errors[rows, nth] < best
        best = np.where(is_better, errors[rows, nth], best)
        b0 = np.where(is_better, some_b0[rows, nth], b0)
        b1 = np.where(is_better, some_b1[rows, nth], b1)
        low = tried[rows, np.maximum(nth - 1, 0)]
        high = tried[rows, np.minimum(nth + 1, STEPS - 1)]
    return b0, b1


def _for_each(
    tried: Floats, epochs: Floats, losses: Floats, is_there: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """b0, b1 and the squared error of the losses, by row and value of b2."""
    import numpy as np

    above = np.maximum(losses[:, None, :] - tried[:, :, None], TINY)
    weight = np.where(is_there[:, None, :], above**4, 0.0)
    x, y = epochs[:, None, :], 1.0 / above
    w = weight.sum(axis=2)
    wx, wy = (weight * x).sum(axis=2), (weight * y).sum(axis=2)
    wxx, wxy = (weight * x * x).sum(axis=2), (weight * x * y).sum(axis=2)
    spread = w * wxx - wx * wx
    slope = np.where(spread > TINY * w * wxx, (w * wxy - wx * wy) / np.where(spread == 0.0, 1.0, spread), 0.0)
    level = (wy - slope * wx) / w
    # Non-negative least squares of two coefficients: if one of them is negative, it is 0 in the solution.
    through_zero = wxy / np.where(wxx == 0.0, 1.0, wxx)
    slope, level = (
        np.where(slope < 0.0, 0.0, np.where(level < 0.0, through_zero, slope)),
        np.where(slope < 0.0, wy / w, np.where(level < 0.0, 0.0, level)),
    )
    curve = 1.0 / np.maximum(slope[:, :, None] * x + level[:, :, None], TINY) + tried[:, :, None]
    errors = np.where(is_there[:, None, :], (curve - losses[:, None, :]) ** 2, 0.0).sum(axis=2)
    return slope, level, errors
