"""Loss curves of simulated trainings: what `policy.learn` would see of real ones.

A trace does not say how the loss of its jobs fell. So each job gets a curve drawn from its id and a seed. The
loss after `e` epochs is 1 / (b0 e + b1) + b2, the form that Optimus fits. It is 1 at the start.

- `smooth`: there is no noise, and a training ends exactly when its loss falls by less than CONVERGED of the
  first loss per epoch. Whoever fits the curve predicts the end. No real cluster is like that.
- `realistic`: the loss is noisy, with outliers; many trainings are ended by their users long before they
  converge, and some start again with other settings in the middle of their work, with a loss that jumps up.

The shares of trainings that end early and start again are assumptions, in the order of magnitude of the jobs
that are killed or fail in public traces; they are not fitted to any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tiresias.core.model import Job
from tiresias.sim.errors import InputError

CONVERGED = 0.01  # a training has converged when an epoch lowers its loss by less than this part of the first
KINDS = ("smooth", "realistic")
DEFAULT_KIND = "realistic"

FIRST_AT_S, SECOND_AT_S = 1.0, 30.0  # work done at the first two reports, in seconds
CLOSE = 1e-5
GROWTH = 1.25  # work at a later report over work at the one before

FLOOR = (0.05, 0.4)  # the loss that is approached
FALL = (3.0, 20.0)  # how many times the distance to it is smaller at the end of a training
ENDED_EARLY, EARLIEST = 0.4, 0.15  # the part of trainings that their users end, after this part or more
RESTARTED = 0.2  # the part of the others that start again
NOISE, OUTLIERS, OUTLIER = 0.03, 0.02, 0.5  # standard deviation; share of outliers, and how far off they are


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss of one training: 1 / (b0 e + b1) + b2 after `e` epochs, of which its work has `epochs`.

    With `restarts_at` below 1 it starts again after that part of its work.
    """

    b0: float
    b1: float
    b2: float
    epochs: float
    restarts_at: float = 1.0

    def epoch(self, part: float) -> float:
        """Epochs done after this part of the work, counted from its start."""
        return part * self.epochs

    def loss(self, part: float) -> float:
        """The loss after this part of the work, without noise."""
        since = part - self.restarts_at if part > self.restarts_at else part
        return 1.0 / (self.b0 * self.epoch(since) + self.b1) + self.b2


def converging(floor: float, fall: float, part: float = 1.0) -> Curve:
    """The curve that approaches `floor`, has come `fall` times as near to it at the end, and converges then.

    The training is ended after `part` of the work that it would need.
    """
    b1 = 1.0 / (1.0 - floor)
    # With `step` = b0 / b1, the last epoch lowers the loss by 1 / (x - b0) - 1 / x at x = b1 * fall, which is
    # CONVERGED: solved for `step`.
    scaled = CONVERGED * b1 * fall
    step = scaled * fall / (1.0 + scaled)
    epochs = (fall - 1.0) / step
    return Curve(step * b1, b1, floor, epochs * part)


class Losses:
    """Draws the curves and the noise. The same kind, seed and job always give the same losses."""

    def __init__(self, kind: str = DEFAULT_KIND, seed: int = 0):
        self.kind, self.seed = kind, seed
        self._curves: dict[int, Curve] = {}

    def curve(self, job: Job) -> Curve:
        """The curve of a job; it is kept until the job is forgotten."""
        curve = self._curves.get(job.id)
        if curve is None:
            curve = self._curves[job.id] = self._drawn(Random(f"{self.seed}/{job.id}"))
        return curve

    def forget(self, job: Job) -> None:
        self._curves.pop(job.id, None)

    def report(self, job: Job, done_s: float) -> tuple[float, float]:
        """The epoch and the loss that a training reports after so many seconds of work."""
        assert job.duration_s
        curve, part = self.curve(job), done_s / job.duration_s
        loss = curve.loss(part)
        if self.kind == "realistic":
            random = Random(f"{self.seed}/{job.id}/{done_s!r}")
            loss *= math.exp(random.gauss(0.0, NOISE))
            if random.random() < OUTLIERS:
                loss *= 1.0 + OUTLIER
        return curve.epoch(part), loss

    def _drawn(self, random: Random) -> Curve:
        floor, fall = random.uniform(*FLOOR), random.uniform(*FALL)
        if self.kind == "smooth":
            return converging(floor, fall)
        if random.random() < ENDED_EARLY:
            return converging(floor, fall, random.uniform(EARLIEST, 1.0))
        curve = converging(floor, fall)
        if random.random() < RESTARTED:
            part = random.uniform(0.2, 0.6)
            # The rest of the work is a whole training; the work before it has epochs in proportion.
            return Curve(curve.b0, curve.b1, curve.b2, curve.epochs / (1.0 - part), part)
        return curve


def losses_of(kind: str | None) -> Losses:
    """The losses of this kind, None being the default; InputError if there is no such kind."""
    if kind is None:
        return Losses()
    if kind not in KINDS:
        raise InputError(f"losses {kind!r} are not known; use {' or '.join(KINDS)}")
    return Losses(kind)


def next_report_s(done_s: float) -> float:
    """The work done at the next report, in seconds: at first at once, then in geometric steps of work."""
    done_s *= 1.0 + CLOSE  # a report that is missed by rounding is not repeated
    if done_s < SECOND_AT_S:
        return FIRST_AT_S if done_s < FIRST_AT_S else SECOND_AT_S
    nth = math.floor(math.log(done_s / SECOND_AT_S) / math.log(GROWTH)) + 1
    return SECOND_AT_S * GROWTH**nth
