"""Non-negative least squares with few unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations


def nnls(rows: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """The x >= 0 for which the squared error of `rows` x = `wanted` is least.

    Every subset of the unknowns is tried, so this is exact, and meant for three or four of them: in the
    solution some are 0, and the others solve ordinary least squares.
    """
    import numpy as np  # not before: it delays each start of a manager

    a, b = np.asarray(rows, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    unknowns = a.shape[1]
    best, least = np.zeros(unknowns), float(b @ b)
    for size in range(1, unknowns + 1):
        for some in combinations(range(unknowns), size):
            columns = list(some)
            x = np.linalg.lstsq(a[:, columns], b, rcond=None)[0]
            if (x < 0).any():
                continue
            error = float(((a[:, columns] @ x - b) ** 2).sum())
            if error < least * (1 - 1e-12):
                least, best = error, np.zeros(unknowns)
                best[columns] = x
    return [float(value) for value in best]
