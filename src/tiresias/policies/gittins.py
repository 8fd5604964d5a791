"""The Gittins index of a service distribution, as a step function of attained service.

For a total service S and attained service a the index with quantum D is
    P(S - a <= D | S > a) / E[min(S - a, D) | S > a],
the chance to finish inside the quantum over the service it is expected to take. The printed formula of
the paper takes the best quantum (`sup`); its discretised form takes the upper limit of the job's queue.
The index is worked out on a fixed grid of service and holds from one step to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

from tiresias.core.model import INFINITY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GRID_FROM_GPU_S = 1000.0  # where the largest service is larger than GRID_SPAN times this
GRID_SPAN = 45_000.0  # from the first step to the largest service: about 48 steps
GRID_RATIO = 1.25


class IndexTable:
    """Steps of service (the first is 0) and the index from each on: a serialisable value."""

    __slots__ = ("indices", "steps")

    def __init__(self, steps: Sequence[float], indices: Sequence[float]):
        assert len(steps) == len(indices), (steps, indices)
        assert steps[0] == 0, steps
        self.steps = tuple(float(s) for s in steps)
        self.indices = tuple(float(i) for i in indices)

    def at(self, service_gpu_s: float) -> tuple[float, float]:
        """The index there, and the service at which it changes next."""
        step = bisect_right(self.steps, service_gpu_s)
        return self.indices[step - 1], self.steps[step] if step < len(self.steps) else INFINITY

    def coarse(self, factor: float) -> IndexTable:
        """The same with indices rounded to powers of `factor`; steps that change nothing are left out."""
        steps: list[float] = []
        indices: list[float] = []
        for step, index in zip(self.steps, self.indices, strict=True):
            rounded = factor ** round(log(index, factor)) if index > 0 else 0.0
            if not indices or rounded != indices[-1]:
                steps.append(step)
                indices.append(rounded)
        return IndexTable(steps, indices)


def sample(values: Sequence[float], weights: Sequence[float] | None = None) -> tuple[Floats, Floats]:
    """Rising values, each with its weight, 1 by default.

    NumPy is imported here and not before, so that a manager whose policy needs no index starts sooner.
    """
    import numpy as np

    if weights is None:
        rising = np.sort(np.asarray(values, dtype=np.float64))
        return rising, np.ones_like(rising)
    return np.asarray(values), np.asarray(weights)


def sup_index(values: Floats, weights: Floats, attained: float) -> float:
    """The best quantum's index; `values` rise, each with its weight. Past all of them nothing is known: 0."""
    left = values - attained
    keep = left > 0
    if not keep.any():
        return 0.0
    left, weights = left[keep], weights[keep]
    done = weights.cumsum()
    # For the quantum left[i]: those up to i finish (and take left), all others take the whole quantum.
    taken = (weights * left).cumsum() + (done[-1] - done) * left
    return float((done / taken).max())


def quantum_index(values: Floats, weights: Floats, attained: float, quantum: float) -> float:
    """The index for one given quantum."""
    left = values - attained
    keep = left > 0
    if not keep.any():
        return 0.0
    left, weights = left[keep], weights[keep]
    return float(weights[left <= quantum].sum() / (weights * left.clip(max=quantum)).sum())


def grid(up_to: float) -> list[float]:
    """Steps of service: 0, then each 1.25 times the last, past `up_to`."""
    steps = [0.0, min(GRID_FROM_GPU_S, up_to / GRID_SPAN)]
    while steps[-1] < up_to:
        steps.append(steps[-1] * GRID_RATIO)
    return steps


def sup_table(values: Floats, weights: Floats) -> IndexTable:
    steps = grid(float(values[-1]))
    return IndexTable(steps, [sup_index(values, weights, a) for a in steps])


def queue_table(values: Floats, weights: Floats, ladder: Sequence[float]) -> IndexTable:
    """Each job's quantum is the upper limit of its queue; the last queue, without limit, has no index."""
    if not ladder:
        return IndexTable([0.0], [0.0])
    steps = sorted({*grid(ladder[-1]), *ladder})
    indices = []
    for a in steps:
        queue = bisect_right(ladder, a)
        indices.append(quantum_index(values, weights, a, ladder[queue]) if queue < len(ladder) else 0.0)
    return IndexTable(steps, indices)
