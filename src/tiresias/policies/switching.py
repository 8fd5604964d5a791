"""The Gittins index of piecewise-constant hazards, with the cost of switching to a job.

For a job at the beginning of a step, and for each later step, take the chance that the job ends by the end of
that step, and the seconds that it is expected to work until then. The best ratio of the two is the index: the
ends per second that the job offers. If seconds are lost before the job works at all, because it must load or
another one must save, they count as time spent. The best end lies at the end of a step, because the hazard
does not change inside of a step.

Not every end has to be tried. From each step on there is one that is best if nothing is lost: the steps up to
it are a stretch, and it pays to begin a stretch exactly if its own ratio is above that of what was spent
before it. So whatever was lost, the best end is found by going from stretch to stretch until none pays.
"""

from __future__ import annotations

from math import exp, log

from tiresias.policies.hazards import Rates, grid_of

LEAST = 1e-30

Stretch = tuple[float, float, float, int]
"""The chance to end in it, the seconds that this is expected to take, the chance to go on, the next step."""


def stretches(rates: Rates) -> list[Stretch]:
    """For each step the stretch that begins there, for a job that has come so far."""
    widths, steps = grid_of(rates).widths, len(rates)
    found: list[Stretch] = [(0.0, 0.0, 1.0, steps)] * steps
    for step in range(steps - 1, -1, -1):
        rate, width = rates[step], widths[step]
        stays = exp(-rate * width)
        ends, spent_s = 1 - stays, (1 - stays) / rate if rate > LEAST else width
        found[step] = _with_what_pays(found, ends, spent_s, stays, step + 1)
    return found


def _with_what_pays(found: list[Stretch], ends: float, spent_s: float, stays: float, step: int) -> Stretch:
    """What is left of a job at this step after so much, and the stretches from there that pay."""
    while step < len(found):
        more_ends, more_s, more_stays, after = found[step]
        if more_ends * spent_s <= ends * more_s:
            break
        ends += stays * more_ends
        spent_s += stays * more_s
        stays *= more_stays
        step = after
    return ends, spent_s, stays, step


def log_index_at(found: list[Stretch], step: int, cost_s: float) -> float:
    """The logarithm of the best chance to end per second, from this step on, after `cost_s` lost seconds."""
    ends, spent_s, stays, after = found[step]
    if cost_s:
        ends, spent_s, *_ = _with_what_pays(found, ends, spent_s + cost_s, stays, after)
    return log(max(ends / spent_s, LEAST))


def log_index(rates: Rates, cost_s: float) -> tuple[float, ...]:
    """The same for each step."""
    found = stretches(rates)
    return tuple([log_index_at(found, step, cost_s) for step in range(len(rates))])
