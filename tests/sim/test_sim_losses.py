"""Loss curves of simulated trainings, and what they report of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.core import facts as f
from tiresias.core.ledger import Ledger
from tiresias.core.model import Demand, Job, JobId, RunId
from tiresias.core.plugins import Policy
from tiresias.core.state import JobState
from tiresias.sim.errors import InputError
from tiresias.sim.losses import CONVERGED, Curve, Losses, converging, next_report_s
from tiresias.sim.simulate import simulate
from tiresias.testing import a_trace, story_of

floors, falls = st.floats(0.05, 0.4), st.floats(3.0, 20.0)


def a_job(id: int, duration_s: float = 1000.0) -> Job:
    return Job(JobId(id), Demand(1), 0.0, duration_s=duration_s)


class Listener(Policy):
    """Runs jobs in order of submission and hears of losses."""

    name = "listener"
    learns = frozenset({f.LossReported})

    def rank(self, job: JobState, memory: Any, at: float) -> tuple[float, ...]:
        return ()


def reported(kind: str | None = None, **options: Any) -> list[f.LossReported]:
    """Two trainings on one node; the second is urgent and stops the first for 100 s."""
    trace = a_trace([(0.0, 4, 1000.0), (100.0, 4, 100.0)], priority=["normal", "high"])
    story = story_of(trace, "1x4", Listener, preemption_cost_s=60.0, losses=kind, **options)
    return [fact for fact in story.facts if isinstance(fact, f.LossReported)]


@given(floors, falls)
def test_a_smooth_training_ends_when_its_loss_has_converged(floor: float, fall: float) -> None:
    curve = converging(floor, fall)
    last = 1.0 / curve.epochs  # the part of the work that is one epoch
    assert curve.loss(0.0) == pytest.approx(1.0)
    assert curve.loss(1.0 - last) - curve.loss(1.0) == pytest.approx(CONVERGED)
    assert (1.0 - floor) / (curve.loss(1.0) - floor) == pytest.approx(fall)


@given(floors, falls)
def test_before_that_each_epoch_lowers_it_by_more(floor: float, fall: float) -> None:
    curve = converging(floor, fall)
    losses = [curve.loss(1.0 - epoch / curve.epochs) for epoch in range(int(curve.epochs) + 1)]
    drops = [before - after for after, before in pairwise(losses)]
    assert drops == sorted(drops)
    assert all(drop >= CONVERGED * 0.999999 for drop in drops)


def test_the_same_job_always_has_the_same_losses() -> None:
    once, again, other = Losses("realistic"), Losses("realistic"), Losses("realistic", seed=1)
    assert once.report(a_job(7), 50.0) == again.report(a_job(7), 50.0)
    assert once.report(a_job(7), 50.0) != other.report(a_job(7), 50.0)
    assert once.report(a_job(7), 50.0) != once.report(a_job(8), 50.0)


def test_realistic_trainings_end_early_or_train_on_or_start_again() -> None:
    losses = Losses("realistic")
    curves = [losses.curve(a_job(id)) for id in range(1000)]
    restarted = [curve for curve in curves if curve.restarts_at < 1.0]
    # The epoch after which the loss has converged, in parts of the epochs of the training.
    ends = [end_of(curve) / curve.epochs for curve in curves if curve.restarts_at == 1.0]
    assert sum(end > 1.01 for end in ends) / 1000 == pytest.approx(0.307, abs=0.05)
    assert sum(0.39 < end < 0.41 for end in ends) / 1000 == pytest.approx(0.693 * 0.75, abs=0.05)
    assert 0 < len(restarted) / 1000 < 0.1
    curve = restarted[0]
    assert curve.loss(curve.restarts_at + 1e-9) == pytest.approx(1.0, abs=1e-3)


def end_of(curve: Curve) -> float:
    """The epoch that lowers the loss by CONVERGED: the positive solution of a quadratic equation."""
    x = (curve.b0 + math.sqrt(curve.b0**2 + 4.0 * curve.b0 / CONVERGED)) / 2.0
    return (x - curve.b1) / curve.b0


def test_realistic_losses_are_noisy() -> None:
    losses, ratios = Losses("realistic"), []
    for id in range(300):
        job, done_s = a_job(id), next_report_s(0.0)
        while done_s < 1000.0:
            ratios.append(losses.report(job, done_s)[1] / losses.curve(job).loss(done_s / 1000.0))
            done_s = next_report_s(done_s)
    assert 0.025 < statistics.stdev(ratio for ratio in ratios if ratio < 1.25) < 0.035
    assert 0.01 < sum(ratio > 1.25 for ratio in ratios) / len(ratios) < 0.03, "outliers"


def test_reports_come_in_geometric_steps_of_work_whatever_happens_to_the_runs() -> None:
    facts = reported("smooth")
    first = [fact for fact in facts if fact.run_id in (1, 3)]
    steps = [fact.step for fact in first]
    wanted, step = [], next_report_s(0.0)
    while step < 1000.0:
        wanted.append(step)
        step = next_report_s(step)
    assert steps == pytest.approx(wanted)
    assert {fact.run_id for fact in first} == {RunId(1), RunId(3)}, "before and after its preemption"
    curve = Losses("smooth").curve(a_job(0))
    assert [fact.loss for fact in first] == pytest.approx([curve.loss(step / 1000.0) for step in steps])
    assert [fact.epoch for fact in first] == pytest.approx([curve.epoch(step / 1000.0) for step in steps])


def test_no_loss_is_reported_while_a_run_loads_or_saves() -> None:
    instants = [fact.at for fact in reported("smooth") if fact.run_id in (1, 3)]
    assert not [at for at in instants if 100.0 <= at < 100.0 + 60.0 + 100.0], "saving, waiting, loading"


def test_realistic_is_the_default() -> None:
    assert reported() == reported("realistic") != reported("smooth")


def test_policies_that_do_not_learn_from_losses_are_not_troubled_with_them(tmp_path: Any) -> None:
    story = story_of(a_trace([(0.0, 4, 1000.0)]), "1x4", "tiresias-l")
    assert not [fact for fact in story.facts if isinstance(fact, f.LossReported)]


def test_trainings_may_report_nothing() -> None:
    assert reported("none") == []


def test_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match="'perfect' are not known; use smooth, realistic or none"):
        simulate(a_trace([(0.0, 1, 10.0)]), "1x1", "fifo", losses="perfect")


class HalfSpeed:
    """The first run is half as fast as the trace says."""

    def __init__(self) -> None:
        self._due: Mapping[RunId, float] = {RunId(1): 0.5}

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> Mapping[RunId, float]:
        due, self._due = self._due, {}
        return due


def test_a_slower_run_reports_later() -> None:
    at_full_speed = [fact.at for fact in reported("smooth") if fact.run_id == 1]
    at_half = [fact.at for fact in reported("smooth", speed_model=HalfSpeed()) if fact.run_id == 1]
    assert at_half == pytest.approx([2 * at for at in at_full_speed if 2 * at < 100.0])
