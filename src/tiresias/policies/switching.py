"""The Gittins index of piecewise-constant hazards, with the cost of switching to a job.

For a job at the beginning of a step, and for each later step, take the chance that the job ends by the end of
that step, and the seconds that it is expected to work until then. The best ratio of the two is the index: the
ends per second that the job offers. If seconds are lost before the job works at all, because it must load or
another one must save, they count as time spent. The best end lies at the end of a step, because the hazard
does not change inside of a step.
"""

from __future__ import annotations

from math import exp, log

from tiresias.policies.hazards import Rates, grid_of

NONE_LEFT = 1e-9  # chance to go on below which later steps are not looked at
LEAST = 1e-30


def log_index(rates: Rates, cost_s: float) -> tuple[float, ...]:
    """For each step: the logarithm of the best chance to end per second, after `cost_s` lost seconds."""
    widths, steps = grid_of(rates).widths, len(rates)
    stays = [exp(-rate * width) for rate, width in zip(rates, widths, strict=True)]
    takes = [  # the expected seconds of work in a step, by a job that reaches it
        (1 - stay) / rate if rate > LEAST else width
        for stay, rate, width in zip(stays, rates, widths, strict=True)
    ]
    found = []
    for start in range(steps):
        alive, spent_s, best = 1.0, cost_s, LEAST
        for step in range(start, steps):
            spent_s += alive * takes[step]
            alive *= stays[step]
            index = (1 - alive) / spent_s
            if index > best:
                best = index
            if alive < NONE_LEFT:
                break
        found.append(log(best))
    return tuple(found)
