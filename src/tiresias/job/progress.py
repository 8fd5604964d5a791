"""The progress, the speed and the remaining time of a training, computed from its reports alone. Pure.

The speed is a sum of steps over a sum of seconds. Both sums decay with time: what was reported a minute ago
counts 1/e. Unlike a mean of speeds this is right from the second report on, however far apart the reports
are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .reports import Metric, Report

FADING_S = 60.0
MOST_METRICS = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known after some reports of one run. Every run starts with Progress().

    `faded_steps` over `faded_s` is the speed. `gap_s` are the seconds between the last two reports with a
    step.
    """

    step: int | None = None
    total_steps: int | None = None
    reported_at: float | None = None
    stepped_at: float | None = None
    gap_s: float = 0.0
    faded_steps: float = 0.0
    faded_s: float = 0.0
    metrics: dict[str, Metric] | None = None

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None if the training has not reported its total number of steps."""
        if self.step is None or not self.total_steps:
            return None
        return min(1.0, self.step / self.total_steps)

    @property
    def steps_per_s(self) -> float | None:
        """Smoothed, as of the last report; None before there are two reports with a step."""
        return self.faded_steps / self.faded_s if self.faded_s > 0 else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Progress at one instant, for display; None means unknown."""

    fraction: float | None
    steps_per_s: float | None
    eta_s: float | None


def advance(progress: Progress, report: Report) -> Progress:
    """The progress after one more report."""
    metrics = {**(progress.metrics or {}), **report.metrics}
    if len(metrics) > MOST_METRICS:
        metrics = report.metrics
    total_steps = report.total_steps or progress.total_steps
    known = replace(progress, metrics=metrics, total_steps=total_steps, reported_at=report.at)
    if report.step is None:
        return known
    return stepped(known, report.step, report.at)


def stepped(progress: Progress, step: int, at: float) -> Progress:
    """The progress after a report of `step` at the instant `at`."""
    before, before_at = progress.step, progress.stepped_at
    if before is None or before_at is None or step < before or at < before_at:
        # The first report, or the training went back to a checkpoint: this gives no speed.
        return replace(progress, step=step, stepped_at=at)
    gap_s = at - before_at
    kept = math.exp(-gap_s / FADING_S)
    return replace(
        progress,
        step=step,
        stepped_at=at,
        gap_s=gap_s or progress.gap_s,
        faded_steps=progress.faded_steps * kept + (step - before),
        faded_s=progress.faded_s * kept + gap_s,
    )


def follow(progress: Progress, reports: Iterable[Report]) -> Progress:
    """The progress after these reports."""
    for report in reports:
        progress = advance(progress, report)
    return progress


def outlook(progress: Progress, now: float) -> Outlook:
    """What to show at `now`. A silence of more than twice the last gap counts as time without steps."""
    seen = progress
    if progress.stepped_at is not None and progress.step is not None and progress.faded_s > 0:
        silent_s = now - progress.stepped_at
        if silent_s > 2 * max(progress.gap_s, 1.0):
            seen = stepped(progress, progress.step, now)
    return Outlook(progress.fraction, seen.steps_per_s, eta_s(seen, now))


def eta_s(progress: Progress, now: float) -> float | None:
    """Seconds from `now` until the last step at the present speed; None if the speed is unknown or 0."""
    speed = progress.steps_per_s
    if progress.step is None or not progress.total_steps or progress.stepped_at is None:
        return None
    left = progress.total_steps - progress.step
    if left <= 0:
        return 0.0
    return max(0.0, left / speed - (now - progress.stepped_at)) if speed else None
