"""Hazards: how likely jobs are to end, by how long they have worked.

Work is counted in seconds per job and cut into steps, each as long as all steps before it together. The first
one ends at 60 s; where jobs last for seconds and preemptions cost less, it is shorter (Grid). In each step
two things are counted: how many jobs ended there, and how many seconds jobs have worked there, whether they
have ended or not. The first divided by the second is the hazard of the step, in ends per second. Because the
seconds of unfinished jobs count as well, jobs that go on for long are not overlooked (censoring).

Where little was counted, a hazard is drawn towards that of a larger class of jobs: `shrunk` adds `lean` ends
at the parent's hazard to each step. How many these are, follows from how much classes differ (Variation). The
last parent is PRIOR, a formula that is fitted to no trace: a hazard of ALPHA divided by the work done. Under
it, the order of jobs is that of 2D-LAS: the least attained service (GPUs x time) goes first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp
from operator import add

FIRST_S = 60.0  # the end of the first step, at most; jobs that have worked less are all alike
FINEST = 10  # how many times it can be halved: to 0.06 s
PART = 1 / 16  # of a typical job's work: what the first step should not be shorter than
FINE, COARSE = 4.0, 0.5  # the first step is kept while it is between these times what it should be
REACH_S = 2e7  # the last step begins at or above this
TOLERANCE_S = 1e-3  # epoch seconds resolve to 2.4e-7 s: no step is missed for that


ALPHA = 0.7
TAIL_S = 3e5  # from here on the prior's hazard is constant: nothing is known about jobs that are so long

Rates = tuple[float, ...]
"""A hazard for each step, in ends per second."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The steps of work."""

    edges: tuple[float, ...]  # where each step begins, in seconds of work
    widths: tuple[float, ...]
    prior: Rates


@cache
def grid(finer: int = 0) -> Grid:
    """The steps of which the first one was halved so many times."""
    first_s = FIRST_S / 2**finer
    edges = [0.0, first_s]
    while edges[-1] < REACH_S:
        edges.append(2 * edges[-1])
    prior = [ALPHA / min(edge * 2**0.5 or first_s, TAIL_S) for edge in edges]
    return Grid(tuple(edges), (*(b - a for a, b in pairwise(edges)), edges[-1]), tuple(prior))


EDGES, WIDTHS, PRIOR = grid().edges, grid().widths, grid().prior
STEPS = len(EDGES)


def grid_of(rates: Rates) -> Grid:
    """The steps that these hazards are of."""
    return grid(len(rates) - STEPS)


def fineness(finer: int, least_s: float) -> int:
    """How many times the first step should be halved, if it is so many times now.

    It should be at least `least_s` long. It stays as it is if that is nearly so, or if it is not much longer.
    """
    first_s = FIRST_S / 2**finer
    if COARSE * least_s <= first_s <= FINE * least_s:
        return finer
    finer = 0
    while finer < FINEST and FIRST_S / 2 ** (finer + 1) >= least_s:
        finer += 1
    return finer


FEWEST, MOST = 0.5, 20.0  # ends expected in a step from which `Variation` learns
WORTH = 5.0  # steps of classes that the usual variation counts for
LEAST_LEAN, MOST_LEAN = 0.3, 30.0


def step_of(work_s: float, edges: Sequence[float] = EDGES) -> int:
    """The step in which a job is that has worked for so long."""
    return bisect_right(edges, work_s + TOLERANCE_S) - 1


def end_step_of(work_s: float, edges: Sequence[float] = EDGES) -> int:
    """The step in which a job has ended that has worked for so long: at an edge, the step before it."""
    return step_of(max(0.0, work_s - 2 * TOLERANCE_S), edges)


def work_in_steps(from_s: float, to_s: float, edges: Sequence[float] = EDGES) -> list[tuple[int, float]]:
    """Work from here to there, as the seconds in each step."""
    if to_s <= from_s:
        return []
    step, last = step_of(from_s, edges), len(edges) - 1
    found = []
    while step < last and edges[step + 1] < to_s:
        found.append((step, edges[step + 1] - from_s))
        step += 1
        from_s = edges[step]
    found.append((step, to_s - from_s))
    return found


class Counts:
    """Ends and seconds of work, by step."""

    __slots__ = ("ended", "ends", "seconds")

    def __init__(self, finer: int = 0) -> None:
        self.ends = [0.0] * (STEPS + finer)
        self.seconds = [0.0] * (STEPS + finer)
        self.ended = 0  # how many jobs, without fading

    def add_work(self, work: Iterable[tuple[int, float]]) -> None:
        """A job has worked so long in each of these steps (see `work_in_steps`)."""
        seconds = self.seconds
        for step, worked_s in work:
            seconds[step] += worked_s

    def add_end(self, step: int) -> None:
        """A job has ended in this step."""
        self.ends[step] += 1
        self.ended += 1

    def fade(self, share: float) -> None:
        """Let what was counted so far weigh less."""
        self.ends = [ends * share for ends in self.ends]
        self.seconds = [seconds * share for seconds in self.seconds]

    def sparse(self) -> list[list[float]]:
        """[step, ends, seconds] of each step that has any."""
        both = zip(self.ends, self.seconds, strict=True)
        return [[step, ends, seconds] for step, (ends, seconds) in enumerate(both) if ends or seconds]

    @classmethod
    def of(cls, sparse: Iterable[Sequence[float]], ended: int = 0, finer: int = 0) -> Counts:
        """What `sparse` gave."""
        counts = cls(finer)
        for step, ends, seconds in sparse:
            counts.ends[int(step)], counts.seconds[int(step)] = float(ends), float(seconds)
        counts.ended = ended
        return counts

    def regrid(self, finer: int) -> None:
        """Go over to a first step that was halved so many times.

        If steps become one, their counts are added. If the first step is cut, nothing is known about where
        in it jobs have ended: its ends are divided as they would be under the prior.
        """
        cuts = finer - (len(self.ends) - STEPS)
        if cuts < 0:
            self.ends[: 1 - cuts] = [sum(self.ends[: 1 - cuts])]
            self.seconds[: 1 - cuts] = [sum(self.seconds[: 1 - cuts])]
        elif cuts > 0:
            steps = grid(finer)
            parts = steps.widths[: cuts + 1]
            ends = [width * rate for width, rate in zip(parts, steps.prior, strict=False)]
            self.ends[:1] = [self.ends[0] * each / sum(ends) for each in ends]
            self.seconds[:1] = [self.seconds[0] * each / sum(parts) for each in parts]


def shrunk(counts: Counts, more: Counts | None, parent: Rates, lean: float, hope: float = 0.0) -> Rates:
    """The hazards of what was counted, drawn towards the parent's by `lean` ends in each step.

    `more` has the seconds of jobs that run at present. With `hope`, so many standard deviations more ends are
    assumed than were seen.
    """
    seconds = counts.seconds
    if more is not None:
        seconds = [a + b for a, b in zip(seconds, more.seconds, strict=True)]
    return tuple(
        [
            (d + lean + hope * (d + lean) ** 0.5) / (s + lean / p)
            for d, s, p in zip(counts.ends, seconds, parent, strict=True)
        ]
    )


class Variation:
    """How much the hazards of classes differ from those of the larger class, as measured.

    Let c be the squared coefficient of variation of the hazards of classes around the parent's. In a step in
    which m ends are expected at the parent's hazard, the ends that are counted vary by m + c m^2: by chance,
    and because classes differ. So the excess over m tells c, and 1 / c is the number of ends at the parent's
    hazard that an estimate should lean on (the shape of the Gamma distribution with that variation). Steps
    with many expected ends are left out: there, leaning makes no difference.
    """

    __slots__ = ("excess", "weight")

    def __init__(self, usual_lean: float):
        self.excess = WORTH / usual_lean
        self.weight = WORTH

    def see(self, counts: Counts, more: Counts | None, parent: Rates) -> None:
        """What was counted for one class."""
        seconds = counts.seconds if more is None else map(add, counts.seconds, more.seconds)
        for ends, worked_s, rate in zip(counts.ends, seconds, parent, strict=True):
            expected = worked_s * rate
            if FEWEST <= expected <= MOST:
                weight = 1 / (1 + expected)
                self.excess += weight * ((ends - expected) ** 2 / expected - 1)
                self.weight += weight * expected

    @property
    def lean(self) -> float:
        if self.excess * MOST_LEAN <= self.weight:
            return MOST_LEAN
        return max(self.weight / self.excess, LEAST_LEAN)


def survival(rates: Rates, from_s: float, to_s: float) -> float:
    """The chance that a job which has worked `from_s` seconds works for `to_s` seconds in all."""
    edges = grid_of(rates).edges
    step, total = step_of(from_s, edges), 0.0
    while from_s < to_s:
        until = min(edges[step + 1], to_s) if step + 1 < len(edges) else to_s
        total += rates[step] * (until - from_s)
        from_s, step = until, step + 1
    return exp(-total)
