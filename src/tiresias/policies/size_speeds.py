"""How fast a training goes by its number of GPUs, from what was seen of it (Optimus, section 3.2).

The time of a step on k GPUs is a / k + b + c k: the computation that is shared out, what is not, and the
communication that grows with the number of workers. This is the form of the paper for synchronous training,
with as many parameter servers as workers. Non-negative least squares give a, b and c from the speeds that
were measured. Where the training has run on few sizes, the curve that is assumed of every training fills the
gaps, with little weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tiresias.policies.nnls import nnls
from tiresias.profiles.scaling import assumed_speedup

ASSUMED_WEIGHT = 0.1  # of an assumed speed beside a measured one


class Speed(NamedTuple):
    """Steps per second on k GPUs: 1 / (a / k + b + c k)."""

    a: float
    b: float
    c: float

    def on(self, gpus: int) -> float:
        return 1.0 / (self.a / gpus + self.b + self.c * gpus)


def fitted(measured: Mapping[int, float], sizes: Iterable[int]) -> Speed:
    """The speed of a training: `measured` are steps per second by number of GPUs, at least one of them.

    `sizes` are those for which the result is meant. Errors count in proportion to the speed.
    """
    nearest = {size: min(measured, key=lambda known: (abs(known - size), known)) for size in sizes}
    assumed = {
        size: measured[known] * assumed_speedup(size, known)
        for size, known in nearest.items()
        if size not in measured
    }
    rows, wanted = [], []
    for speeds, weight in ((measured, 1.0), (assumed, ASSUMED_WEIGHT)):
        for gpus, speed in speeds.items():
            rows.append([weight * speed / gpus, weight * speed, weight * speed * gpus])
            wanted.append(weight)
    return Speed(*nnls(rows, wanted))
