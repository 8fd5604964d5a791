"""Random numbers from a seed, the same on every machine.

NumPy guarantees that the raw stream of a bit generator never changes, but not what its distributions make of
it. So the distributions are computed here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Draw:
    """A stream of random numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, count: int) -> Floats:
        """Numbers in [0, 1), with 53 random bits each."""
        raw = np.asarray(self._bits.random_raw(count), dtype=np.uint64)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def spread(self, count: int) -> Floats:
        """Numbers in [0, 1), exactly one in each of `count` equal parts, in random order."""
        return (self.order(count) + self.uniform(count)) / max(count, 1)

    def order(self, count: int) -> Ints:
        """The numbers 0 .. count-1 shuffled."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def gaps_ms(self, count: int, mean_s: float) -> Ints:
        """Exponential gaps in whole milliseconds."""
        return whole(-np.log1p(-self.uniform(count)) * mean_s * 1000)


def quantiles(levels: Floats, knots: list[tuple[float, float]]) -> Floats:
    """The values at these levels of a distribution with (level, value) knots, interpolated in log space."""
    at, values = np.array(knots, dtype=np.float64).T
    return np.asarray(np.exp(np.interp(levels, at, np.log(values))), dtype=np.float64)


def whole(values: Floats) -> Ints:
    """The nearest whole numbers."""
    return np.asarray(np.rint(values), dtype=np.int64)
