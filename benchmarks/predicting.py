"""How well the hazards that `tiresias` would publish predict the work that follows: no simulation.

The jobs of a trace run as if there were GPUs for all. Each time that the number of ended jobs has grown by a
twentieth, hazards follow from what was seen until then, as in the policy, and are judged by the work until
the next time: by the logarithm of the likelihood of the ends and seconds there, above that of the hazards of
all jobs. Larger is better. The memory and the pull of the class `recent` were chosen by this on the first
half of Philly, and looked at on generated traces; no average JCT is involved.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import data
from benchmarks.learning import first_half, philly_like, testbed
from tiresias.policies.classes import FADES, HOPE, LEAN, size_of
from tiresias.policies.hazards import EDGES, PRIOR, WIDTHS, Counts, Variation, end_step_of, shrunk
from tiresias.sim import traces
from tiresias.sim.trace import Trace

GROWTH = 1.05
FIRST = 5
MEMORIES = (30, 100, 200, 300, 500)
PULLS = (1.0, 4.0, 8.0, 16.0, 32.0)

Floats = NDArray[np.float64]


class Seen:
    """By publication, class of tenant and size, and step: ends and seconds, of all and of recent jobs."""

    def __init__(self, trace: Trace, memories: tuple[int, ...], *, has_tenants: bool):
        columns = trace.jobs
        began, took = columns["submitted_at"].to_numpy(), columns["duration_s"].to_numpy()
        tenants = columns["tenant"].to_list() if has_tenants else [""] * len(trace)
        keys = [(tenant, size_of(gpus)) for tenant, gpus in zip(tenants, columns["gpus"], strict=True)]
        numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
        classes = np.array([numbers[key] for key in keys])
        steps = np.array([end_step_of(work_s) for work_s in took])
        instants = published_at(np.sort(began + took))
        shape = (len(instants), len(numbers), len(EDGES))
        self.ends, self.seconds = np.zeros(shape), np.zeros(shape)
        self.recent = {memory: (np.zeros(shape), np.zeros(shape)) for memory in memories}
        for number in range(len(numbers)):
            chosen = np.nonzero(classes == number)[0]
            chosen = chosen[np.argsort((began + took)[chosen])]
            self._see(number, instants, began[chosen], took[chosen], steps[chosen])

    def _see(self, number: int, instants: Floats, began: Floats, took: Floats, steps: NDArray[Any]) -> None:
        edges, most = np.array(EDGES), len(EDGES)
        work = np.clip(took[:, None] - edges, 0, np.array(WIDTHS))
        for row, at in enumerate(instants):
            ended = int(np.searchsorted(began + took, at, side="right"))
            runs = began[ended:] < at
            runs_s = np.clip((at - began[ended:][runs])[:, None] - edges, 0, work[ended:][runs]).sum(0)
            self.ends[row, number] = np.bincount(steps[:ended], minlength=most)
            self.seconds[row, number] = work[:ended].sum(0) + runs_s
            for memory, (ends, seconds) in self.recent.items():
                weights = (1 - 1 / memory) ** (ended - np.arange(ended))
                ends[row, number] = np.bincount(steps[:ended], weights=weights, minlength=most)
                seconds[row, number] = weights @ work[:ended] + runs_s


def published_at(ends: Floats) -> Floats:
    """When hazards are published, and the last end."""
    numbers, number = [], FIRST
    while number < len(ends):
        numbers.append(number - 1)
        number = max(number + 1, int(number * GROWTH))
    return np.append(ends[numbers], ends[-1] + 1)


def gains(seen: Seen) -> dict[tuple[int, float], float]:
    """By memory and pull, the logarithm of the likelihood above that of all jobs' hazards.

    With a pull of 0 there is no class `recent`.
    """
    found = dict.fromkeys([(0, 0.0), *product(seen.recent, PULLS)], 0.0)
    for row in range(len(seen.ends) - 1):
        ends, seconds = seen.ends[row], seen.seconds[row]
        every = shrunk(_counts(ends.sum(0), seconds.sum(0)), None, PRIOR, LEAN["all"])
        variation = Variation(LEAN["class"])
        for one, worked_s in zip(ends, seconds, strict=True):
            variation.see(_counts(one, worked_s), None, every)
        for number, (one, worked_s) in enumerate(zip(ends, seconds, strict=True)):
            more_ends = seen.ends[row + 1, number] - one
            more_s = seen.seconds[row + 1, number] - worked_s
            if not more_s.any():
                continue
            of_class = shrunk(_counts(one, worked_s), None, every, variation.lean, HOPE["class"])
            for memory, pull in found:
                rates = of_class
                if pull:
                    recent = [each[row, number] for each in seen.recent[memory]]
                    rates = shrunk(_counts(*recent), None, of_class, pull)
                ratio = np.log(np.array(rates) / every)
                found[memory, pull] += float(more_ends @ ratio - more_s @ np.subtract(rates, every))
    return found


def _counts(ends: Floats, seconds: Floats) -> Counts:
    counts = Counts()
    counts.ends, counts.seconds = ends.tolist(), seconds.tolist()
    return counts


def predicting() -> None:
    every: list[tuple[str, Trace, bool]] = [
        (f"testbed-480, seed {seed}", testbed(seed), False) for seed in (11, 12)
    ]
    every.append(("philly-like, recurring=0", philly_like(10_000, 1.1, 128, 11, 0.0), True))
    if (path := data("philly.csv.gz")) is not None:
        half = first_half(traces.load(path))
        every += [("first half of Philly", half, True), ("the same, no tenants", half, False)]
    for name, trace, has_tenants in every:
        seen = Seen(trace, MEMORIES, has_tenants=has_tenants)
        found = gains(seen)
        now = found[FADES["recent"], LEAN["recent"]]
        best = max(found, key=lambda key: found[key])
        print(
            f"{name:26} without a class `recent` {found[0, 0.0]:,.0f}, as it is {now:,.0f}, a memory of 30"
            f" and a pull of 1 {found[30, 1.0]:,.0f}, best {found[best]:,.0f} with {best}",
            flush=True,
        )
