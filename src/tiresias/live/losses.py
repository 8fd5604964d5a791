"""What interruptions cost a job, computed from its runs. Pure.

A run that is signalled to stop saves its work, and the next run loads it. Neither makes progress, and work
that was done after the last save is done again. If the training reports its steps, all of that is measured:
it is the time for which slots were allocated between the last step reported before the interruption and the
first one reported after it, less the time that these steps take. Otherwise it is the time from revocation to
exit and from grant to start, because nothing else is known. A run that failed by itself is no interruption:
it would have failed under any policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tiresias.store import RunSpan

SLACK_S = 1.0  # the clocks of trainings may differ by so much


@dataclass(slots=True, frozen=True)
class Losses:
    """Of one job: how often it was interrupted, what that cost, and how long its first start took."""

    interruptions: int = 0
    lost_s: float = 0.0
    startup_s: float | None = None  # from its first grant to its first work; None if it never worked


def losses(runs: Sequence[RunSpan]) -> Losses:
    """From all runs of a job that have exited, in their order."""
    if not runs:
        return Losses()
    step_s = seconds_per_step(runs)
    costs = _plain_costs(runs) if step_s is None else _costs_by_steps(runs, step_s)
    interruptions, lost_s = sum(stops for stops, _ in costs), sum(cost_s for _, cost_s in costs)
    return Losses(interruptions, lost_s, _startup_s(runs[0], step_s))


def seconds_per_step(runs: Sequence[RunSpan]) -> float | None:
    """Of the work itself; None if the training reported too little."""
    spans = [(end[0] - begin[0], end[1] - begin[1]) for begin, end in filter(None, map(_reported, runs))]
    steps = sum(count for _, count in spans)
    return sum(seconds for seconds, _ in spans) / steps if steps else None


Point = tuple[float, int]  # an instant, and the steps done then


def _reported(run: RunSpan) -> tuple[Point, Point] | None:
    """The first and the last reported step, unless their instants contradict the run: clocks may differ."""
    if run.first is None or run.last is None or run.first[1] is None or run.last[1] is None:
        return None
    begin, end = (run.first[0], run.first[1]), (run.last[0], run.last[1])
    early, late = run.granted_at - SLACK_S, run.exited_at + SLACK_S
    is_sound = early <= begin[0] <= end[0] <= late and begin[1] <= end[1]
    return (begin, end) if is_sound else None


def _costs_by_steps(runs: Sequence[RunSpan], step_s: float) -> list[tuple[int, float]]:
    """(interruptions, seconds) per gap between two reported steps that contains an interruption."""
    costs = []
    left: int | None = None  # steps reported before the gap
    allocated_s, stops = 0.0, 0  # in the gap so far
    for run in runs:
        reported = _reported(run)
        if reported is None:
            allocated_s += run.exited_at - run.granted_at
        else:
            (back_at, back), (last_at, last) = reported
            if stops and left is None:
                costs.append((stops, allocated_s))  # no run so far has made a step
            elif stops and left is not None:
                cost_s = allocated_s + back_at - run.granted_at - (back - left) * step_s
                costs.append((stops, max(0.0, cost_s)))
            left, allocated_s, stops = last, run.exited_at - last_at, 0
        stops += run.revoked_at is not None
    return costs


def _plain_costs(runs: Sequence[RunSpan]) -> list[tuple[int, float]]:
    return [
        (1, run.exited_at - run.revoked_at + _starting_s(following))
        for run, following in pairwise(runs)
        if run.revoked_at is not None
    ]


def _starting_s(run: RunSpan) -> float:
    return (run.exited_at if run.started_at is None else run.started_at) - run.granted_at


def _startup_s(run: RunSpan, step_s: float | None) -> float | None:
    reported = _reported(run)
    if reported is not None and step_s is not None:
        first_at, step = reported[0]
        return max(0.0, first_at - run.granted_at - step * step_s)
    return None if run.started_at is None else run.started_at - run.granted_at
