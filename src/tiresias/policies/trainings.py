"""What trainings have reported: their losses by epoch, and their speed by number of GPUs.

This is the memory of `optimus`, a serialisable value. It has active jobs only, and at most MOST_POINTS losses
of each: when there are more, every second of the older half is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiresias.core.facts import LossReported
from tiresias.core.model import JobId, RunId
from tiresias.core.state import JobState

MOST_POINTS = 64


@dataclass(slots=True)
class Training:
    """What one job has reported. `step` is the last step that is known, reported at `at` by `run_id`."""

    points: list[tuple[float, float]] = field(default_factory=list)  # epochs, and the loss then
    step: float = 0.0
    total_steps: float | None = None
    steps_per_epoch: float | None = None
    run_id: RunId | None = None
    at: float = 0.0
    speeds: dict[int, tuple[float, float]] = field(
        default_factory=dict
    )  # by GPUs: steps, and seconds for them

    def report(self, fact: LossReported, gpus: int) -> None:
        """Take in a report of a run that holds so many GPUs."""
        if fact.run_id == self.run_id and fact.step > self.step and fact.at > self.at:
            steps, seconds = self.speeds.get(gpus, (0.0, 0.0))
            self.speeds[gpus] = steps + fact.step - self.step, seconds + fact.at - self.at
        self.run_id, self.step, self.at = fact.run_id, fact.step, fact.at
        self.total_steps = fact.total_steps or self.total_steps
        if fact.epoch is None:
            return
        if fact.epoch > 0:
            self.steps_per_epoch = fact.step / fact.epoch
        while self.points and self.points[-1][0] >= fact.epoch:
            self.points.pop()  # it went back to a checkpoint, or began anew
        self.points.append((fact.epoch, fact.loss))
        if len(self.points) > MOST_POINTS:
            half = MOST_POINTS // 2
            self.points = self.points[:half:2] + self.points[half:]

    def measured(self) -> dict[int, float]:
        """Steps per second by number of GPUs."""
        return {gpus: steps / seconds for gpus, (steps, seconds) in self.speeds.items()}


class Trainings:
    """The active trainings that have reported losses."""

    def __init__(self) -> None:
        self.of: dict[JobId, Training] = {}

    def report(self, fact: LossReported, job: JobState) -> None:
        training = self.of.get(job.id)
        if training is None:
            training = self.of[job.id] = Training()
        run = job.run
        training.report(fact, job.gpus if run is None else run.gpus)

    def forget(self, id: JobId) -> None:
        self.of.pop(id, None)

    def save(self) -> list[Any]:
        return [
            [
                id,
                [list(point) for point in each.points],
                [each.step, each.total_steps, each.steps_per_epoch, each.run_id, each.at],
                [[gpus, *seen] for gpus, seen in each.speeds.items()],
            ]
            for id, each in self.of.items()
        ]

    @classmethod
    def restore(cls, saved: list[Any]) -> Trainings:
        made = cls()
        for id, points, (step, total_steps, steps_per_epoch, run_id, at), speeds in saved:
            made.of[JobId(id)] = Training(
                [(epoch, loss) for epoch, loss in points],
                step,
                total_steps,
                steps_per_epoch,
                None if run_id is None else RunId(run_id),
                at,
                {gpus: (steps, seconds) for gpus, steps, seconds in speeds},
            )
        return made
