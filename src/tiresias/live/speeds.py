"""How fast models ran in which shape: steps per second of their latest runs, by model, GPUs and shape.

Rules:
- A run counts once, when it has ended, as a whole: steps between its first and its last report over the
  seconds between them. A run that reported no steps, or too few, does not count.
- The measured slowdown of a shape is the median speed of the best shape there is (the fewest nodes, then the
  fewest groups) divided by that of this one. Both need ENOUGH runs. It is never below 1.
- Jobs of one model and size are taken to make steps of the same size: a training with another batch size
  should have a profile of its own.
- Per model, size and shape the KEPT latest runs are remembered, for the MOST of these that ran latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tiresias.profiles.measured import GangShape

ENOUGH = 3
KEPT = 9
MOST = 200
LEAST_STEPS = 10
NOISE = 0.10  # a smaller relative change is no reason for a correction

Report = tuple[float, int | None]  # instant and step


def steps_per_s(first: Report, last: Report, least_s: float) -> float | None:
    """The speed of a run between two of its reports; None if they say too little."""
    (began_at, begin), (ended_at, end) = first, last
    if begin is None or end is None or end - begin < LEAST_STEPS or ended_at - began_at < max(least_s, 1e-3):
        return None
    return (end - begin) / (ended_at - began_at)


class Speeds:
    """`saved` is what `save` gave."""

    def __init__(self, saved: Iterable[tuple[str, int, str, list[float]]] = ()):
        self._runs: dict[GangShape, list[float]] = {  # the place that saw a run last is the last
            GangShape(model, gpus, shape): list(speeds) for model, gpus, shape, speeds in saved
        }

    def save(self) -> list[list[Any]]:
        return [[*place, speeds] for place, speeds in self._runs.items()]

    def add(self, place: GangShape, speed: float) -> None:
        speeds = self._runs.pop(place, [])
        self._runs[place] = [*speeds, speed][-KEPT:]
        if len(self._runs) > MOST:
            del self._runs[next(iter(self._runs))]

    def places(self) -> list[tuple[GangShape, int, float]]:
        """Each with the number of its runs and their median speed."""
        from statistics import median  # here, because it imports much that a start does not need

        return [(place, len(speeds), median(speeds)) for place, speeds in sorted(self._runs.items())]

    def slowdowns(self) -> dict[GangShape, float]:
        """What has been measured, of all places but the best of each model and size."""
        best: dict[tuple[str, int], tuple[tuple[int, ...], float]] = {}
        enough = [(place, speed) for place, runs, speed in self.places() if runs >= ENOUGH]
        for place, speed in enough:
            key, size = (place.model, place.gpus), _size(place)
            if key not in best or size < best[key][0]:
                best[key] = size, speed
        found = {}
        for place, speed in enough:
            size, most = best[place.model, place.gpus]
            if _size(place) != size:
                found[place] = min(max(1.0, most / speed), 1000.0)
        return found


def _size(place: GangShape) -> tuple[int, ...]:
    return tuple(map(int, place.shape.split("x")))


def corrected(
    used: Mapping[GangShape, float], measured: Mapping[GangShape, float], predicted: Mapping[GangShape, float]
) -> dict[GangShape, float]:
    """The slowdowns to go by from now on: as used, where what was measured says nearly the same.

    `predicted` is what holds where nothing is used yet.
    """
    found: dict[GangShape, float] = {}
    for place, slowdown in measured.items():
        before = used.get(place, predicted.get(place))
        if before is None or abs(slowdown / before - 1) > NOISE:
            found[place] = round(slowdown, 2)
        elif place in used:
            found[place] = used[place]
    return found
