"""Predictions from losses: when a training will have converged, and how fast it goes on other sizes."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.policies.convergence import LEAST_POINTS, convergence
from tiresias.policies.nnls import nnls
from tiresias.policies.size_speeds import fitted
from tiresias.profiles.scaling import assumed_speedup

DROP = 0.01


def a_curve(b0: float, b1: float, b2: float, epochs: list[float]) -> list[tuple[float, float]]:
    return [(epoch, 1.0 / (b0 * epoch + b1) + b2) for epoch in epochs]


def end_of(b0: float, b1: float, b2: float) -> float:
    """By search: the first epoch, in thousandths, that lowers the loss by less than DROP of the first one."""
    first = 1.0 / b1 + b2

    def falls(epoch: float) -> float:
        return (1.0 / (b0 * (epoch - 1.0) + b1) - 1.0 / (b0 * epoch + b1)) / first

    return next(nth / 1000 for nth in range(1000, 10**6) if falls(nth / 1000) < DROP)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.3, 3.0), st.floats(0.8, 2.0), st.floats(0.0, 0.5), st.integers(8, 40))
def test_a_curve_without_noise_is_found_again(b0: float, b1: float, b2: float, points: int) -> None:
    known = a_curve(b0, b1, b2, [8.0 * nth / points for nth in range(points)])
    assert convergence([known], DROP)[0] == pytest.approx(end_of(b0, b1, b2), rel=0.05)


def test_noise_moves_the_prediction_a_little_and_outliers_do_not_ruin_it() -> None:
    rng = Random(3)
    clean = a_curve(0.8, 1.1, 0.2, [nth / 4 for nth in range(40)])
    noisy = [(epoch, loss * math.exp(rng.gauss(0.0, 0.01))) for epoch, loss in clean]
    spoilt = [(epoch, 4.0 if nth in (11, 23) else loss) for nth, (epoch, loss) in enumerate(clean)]
    end = end_of(0.8, 1.1, 0.2)
    assert convergence([noisy], DROP)[0] == pytest.approx(end, rel=0.2)
    assert convergence([spoilt], DROP)[0] == pytest.approx(end, rel=0.2)


def test_a_training_restarted_in_its_middle_is_predicted_wrongly() -> None:
    """What prediction from losses cannot know: the second half is a new training."""
    once = a_curve(1.0, 1.0, 0.1, [nth / 4 for nth in range(20)])
    again = [(5.0 + epoch, loss) for epoch, loss in once]
    end = convergence([[*once, *again]], DROP)[0]
    assert end is not None
    assert abs(end - (5.0 + end_of(1.0, 1.0, 0.1))) > 2.0


def test_what_is_found_for_a_training_does_not_depend_on_the_others() -> None:
    rng = Random(1)
    histories = []
    for _ in range(40):
        epochs = [nth / 3 for nth in range(rng.randrange(5, 60))]
        clean = a_curve(rng.uniform(0.3, 3.0), 1.0, rng.uniform(0.0, 0.4), epochs)
        histories.append([(epoch, loss * math.exp(rng.gauss(0.0, 0.05))) for epoch, loss in clean])
    together = convergence(histories, DROP)
    assert together == [convergence([points], DROP)[0] for points in histories]
    assert together == convergence(histories[::-1], DROP)[::-1]


def test_with_few_losses_nothing_is_predicted() -> None:
    known = a_curve(1.0, 1.0, 0.1, [0.0, 1.0, 2.0, 3.0, 4.0])
    assert convergence([known[: LEAST_POINTS - 1], []], DROP) == [None, None]
    assert convergence([known], DROP)[0] is not None


def test_a_loss_that_does_not_fall_has_converged_already() -> None:
    assert convergence([[(float(nth), 0.5) for nth in range(8)]], DROP) == [0.0]
    assert convergence([[(float(nth), 0.0) for nth in range(8)]], DROP) == [None]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(3, 8))
def test_nnls_meets_the_conditions_of_the_optimum(seed: int, unknowns: int, rows: int) -> None:
    """At x >= 0 the gradient of the squared error is 0 where x > 0, and not negative where x = 0."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rows, unknowns)), rng.normal(size=rows)
    x = np.array(nnls(a.tolist(), b.tolist()))
    gradient = a.T @ (a @ x - b)
    assert (x >= 0).all()
    assert gradient[x > 0] == pytest.approx(0.0, abs=1e-8)
    assert (gradient[x == 0] >= -1e-8).all()


def test_the_speed_on_sizes_that_were_measured_is_found_again() -> None:
    def speed(gpus: int) -> float:
        return 1.0 / (8.0 / gpus + 0.5 + 0.2 * gpus)

    curve = fitted({gpus: speed(gpus) for gpus in (1, 2, 4, 8)}, (1, 4, 8))
    assert [curve.on(gpus) for gpus in range(1, 9)] == pytest.approx([speed(gpus) for gpus in range(1, 9)])
    assert curve.on(16) < curve.on(8), "the communication grows with the number of GPUs"


def test_from_one_size_the_others_follow_the_assumed_curve() -> None:
    curve = fitted({4: 2.0}, (1, 4, 8))
    for gpus in (1, 2, 4, 8):
        assert curve.on(gpus) == pytest.approx(2.0 * assumed_speedup(gpus, 4), rel=0.08)
