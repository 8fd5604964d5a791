"""Loss curves of simulated trainings: what `policy.learn` would see of real ones.

A trace does not say how the loss of its jobs fell. So each job gets a curve drawn from its id and a seed. The
loss after `e` epochs is 1 / (b0 e + b1) + b2, the form that Optimus fits. It is 1 at the start.

- `smooth`: there is no noise, and a training ends exactly when its loss falls by less than CONVERGED of the
  first loss per epoch. Whoever fits the curve predicts the end. No real cluster is like that.
- `realistic`: the loss is noisy, with outliers. Some trainings are ended by their users, or fail, long before
  they converge. Most of the others train on long after that. Some start again with other settings in the
  middle of their work, with a loss that jumps up.
- `none`: no training reports its loss.

How many end early, and how many train on for how long, are figures of Philly's cluster (Jeon and others, ATC
2019): 30.7 % of the jobs were killed or failed, and about 75 % of the jobs that passed came within 0.1 % of
their best loss in 40 % of their epochs. When a training ends early, how many start again, and the noise are
assumptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tiresias.core.model import Job
from tiresias.sim.errors import InputError

CONVERGED = 0.01  # a training has converged when an epoch lowers its loss by less than this part of the first
KINDS = ("smooth", "realistic", "none")
DEFAULT_KIND = "realistic"

FIRST_AT_S, SECOND_AT_S = 1.0, 30.0  # work done at the first two reports, in seconds
CLOSE = 1e-5
GROWTH = 1.5  # work at a later report over work at the one before
LOG_GROWTH = math.log(GROWTH)

FLOOR = (0.05, 0.4)  # the loss that is approached
FALL = (3.0, 20.0)  # how many times the distance to it is smaller at the end of a training
ENDED_EARLY, EARLIEST = 0.307, 0.02  # the part of trainings that end early, after this part or more
TRAINED_ON, CONVERGED_AT = 0.75, 0.4  # the part of the others that train on, and when they have converged
RESTARTED = 0.2  # the part of what remains that starts again
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

    The training ends after `part` of the work that it would need, which is above 1 if it trains on.
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
        self._noise: dict[int, tuple[Random, list[float]]] = {}  # its factors, by the number of the report

    def curve(self, job: Job) -> Curve:
        """The curve of a job; it is kept until the job is forgotten."""
        curve = self._curves.get(job.id)
        if curve is None:
            curve = self._curves[job.id] = self._drawn(Random(f"{self.seed}/{job.id}"))
        return curve

    def forget(self, job: Job) -> None:
        self._curves.pop(job.id, None)
        self._noise.pop(job.id, None)

    def report(self, job: Job, done_s: float) -> tuple[float, float]:
        """The epoch and the loss that a training reports after so many seconds of work."""
        assert job.duration_s
        curve, part = self.curve(job), done_s / job.duration_s
        loss = curve.loss(part)
        if self.kind == "realistic":
            loss *= self._factor(job, reports_until(done_s))
        return curve.epoch(part), loss

    def _factor(self, job: Job, nth: int) -> float:
        """The noise of a report: that with the same number always has the same."""
        known = self._noise.get(job.id)
        if known is None:
            known = self._noise[job.id] = Random(f"{self.seed}/{job.id}/noise"), []
        random, factors = known
        while len(factors) <= nth:
            is_outlier = random.random() < OUTLIERS
            factors.append(math.exp(random.gauss(0.0, NOISE)) * (1.0 + OUTLIER * is_outlier))
        return factors[nth]

    def _drawn(self, random: Random) -> Curve:
        floor, fall = random.uniform(*FLOOR), random.uniform(*FALL)
        if self.kind == "smooth":
            return converging(floor, fall)
        if random.random() < ENDED_EARLY:
            return converging(floor, fall, math.exp(random.uniform(math.log(EARLIEST), 0.0)))
        if random.random() < TRAINED_ON:
            return converging(floor, fall, 1.0 / CONVERGED_AT)
        curve = converging(floor, fall)
        if random.random() < RESTARTED:
            part = random.uniform(0.2, 0.6)
            # The rest of the work is a whole training; the work before it has epochs in proportion.
            return Curve(curve.b0, curve.b1, curve.b2, curve.epochs / (1.0 - part), part)
        return curve


def losses_of(kind: str | None) -> Losses | None:
    """The losses of this kind, by default the realistic ones; None: nothing is reported."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"losses {kind!r} are not known; use {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return None if kind == "none" else Losses(kind or DEFAULT_KIND)


def reports_until(done_s: float) -> int:
    """How many reports there are up to so many seconds of work: at first at once, then in geometric steps."""
    done_s *= 1.0 + CLOSE  # a report that is missed by rounding is not repeated
    if done_s < SECOND_AT_S:
        return 0 if done_s < FIRST_AT_S else 1
    return math.floor(math.log(done_s / SECOND_AT_S) / LOG_GROWTH) + 2


def next_report_s(done_s: float) -> float:
    """The work done at the next report, in seconds."""
    so_far = reports_until(done_s)
    return (FIRST_AT_S, SECOND_AT_S)[so_far] if so_far < 2 else SECOND_AT_S * GROWTH ** (so_far - 1)
