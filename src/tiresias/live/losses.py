"""What interruptions cost a job, from the records of its runs. Pure.

A run that is told to stop saves its work, and the next one loads it. Neither makes progress, and what was
done after the last save is done again. Where the training tells its steps, all of that is measured: it is the
time its slots were held between the last step told before and the first one told after, less what these
steps take. Otherwise it is the time from revocation to exit and from grant to start: nothing else is known.
A run that failed by itself is no interruption: under any policy it would have failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tiresias.store import RunSpan

SLACK_S = 1.0  # trainings read a clock of their own


@dataclass(slots=True, frozen=True)
class Losses:
    """Of one job: how often it was interrupted, the seconds that cost, and how long its first run began."""

    interruptions: int = 0
    lost_s: float = 0.0
    startup_s: float | None = None  # from grant to work; None if it never began


def losses(runs: Sequence[RunSpan]) -> Losses:
    """From all closed runs of a job, the first first."""
    if not runs:
        return Losses()
    step_s = seconds_a_step(runs)
    costs = _plain_costs(runs) if step_s is None else _costs_by_steps(runs, step_s)
    interruptions, lost_s = sum(stops for stops, _ in costs), sum(cost_s for _, cost_s in costs)
    return Losses(interruptions, lost_s, _startup_s(runs[0], step_s))


def seconds_a_step(runs: Sequence[RunSpan]) -> float | None:
    """While it worked; None if the training told too little."""
    spans = [(end[0] - begin[0], end[1] - begin[1]) for begin, end in filter(None, map(_told, runs))]
    steps = sum(count for _, count in spans)
    return sum(seconds for seconds, _ in spans) / steps if steps else None


Point = tuple[float, int]  # an instant, and the steps done then


def _told(run: RunSpan) -> tuple[Point, Point] | None:
    """The first and the last step told, if they can be of this run: the training's clock may be another."""
    if run.first is None or run.last is None or run.first[1] is None or run.last[1] is None:
        return None
    begin, end = (run.first[0], run.first[1]), (run.last[0], run.last[1])
    early, late = run.granted_at - SLACK_S, run.exited_at + SLACK_S
    is_sound = early <= begin[0] <= end[0] <= late and begin[1] <= end[1]
    return (begin, end) if is_sound else None


def _costs_by_steps(runs: Sequence[RunSpan], step_s: float) -> list[tuple[int, float]]:
    """(interruptions, seconds) for each gap between a step told and the next one, where it has any."""
    costs = []
    left: int | None = None  # steps told before the gap
    held_s, stops = 0.0, 0  # in the gap so far
    for run in runs:
        told = _told(run)
        if told is None:
            held_s += run.exited_at - run.granted_at
        else:
            (back_at, back), (last_at, last) = told
            if stops and left is None:
                costs.append((stops, held_s))  # all runs so far were in vain
            elif stops and left is not None:
                cost_s = held_s + back_at - run.granted_at - (back - left) * step_s
                costs.append((stops, max(0.0, cost_s)))
            left, held_s, stops = last, run.exited_at - last_at, 0
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
    told = _told(run)
    if told is not None and step_s is not None:
        first_at, step = told[0]
        return max(0.0, first_at - run.granted_at - step * step_s)
    return None if run.started_at is None else run.started_at - run.granted_at
