"""`optimus`: jobs go by predicted service, elastic ones grow by marginal gain, in rounds."""

from __future__ import annotations

import pytest

from tiresias.core.model import Demand
from tiresias.core.plugins import OptionError
from tiresias.sim import traces
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace

ROUND_S = 600.0


def elastic(least: int, gpus: int, most: int) -> Demand:
    return Demand(gpus, min_gpus=least, max_gpus=most)


def report(scene: Harness, name: str, *, left: int, seconds: float = 10.0) -> None:
    """The training of a job reports that it makes one step per second and that so many are left."""
    for step in (100, 100 + seconds):
        scene.report_loss(name, step, 0.5, total_steps=100 + seconds + left)
        scene.wait(seconds)


def test_a_job_that_is_predicted_to_end_soon_takes_the_place_of_one_that_is_not() -> None:
    scene = Harness("optimus", gpus=1)
    scene.pending("long").plan()
    report(scene, "long", left=100_000)
    plan = scene.submit("new")
    assert plan.preempted == [], "there is no round yet"
    assert scene.wait(ROUND_S).preempted == ["long"], "new jobs are expected to need 600 s"


def test_a_job_that_is_predicted_to_end_soon_is_not_preempted() -> None:
    scene = Harness("optimus", gpus=1)
    scene.pending("nearly-done").plan()
    report(scene, "nearly-done", left=700)
    scene.submit("new")
    assert scene.wait(ROUND_S).preempted == []


def test_what_is_free_goes_to_the_training_that_it_brings_forward_the_most() -> None:
    scene = Harness("optimus", gpus=6)
    scene.pending("long", demand=elastic(1, 1, 8)).pending("short", demand=elastic(1, 1, 8)).plan()
    report(scene, "long", left=100_000)
    report(scene, "short", left=1_500)
    scene.wait(ROUND_S)
    assert scene.job("long").gpus > scene.job("short").gpus
    assert scene.job("long").gpus + scene.job("short").gpus == 6


def test_elastic_trainings_grow_and_shrink_again_to_make_room_for_jobs_that_wait() -> None:
    scene = Harness("optimus", gpus=4)
    scene.pending("grown", demand=elastic(1, 1, 4)).plan()
    report(scene, "grown", left=100_000)
    assert scene.wait(ROUND_S).preempted == ["grown"], "to go on with more GPUs"
    assert scene.exit("grown").started == ["grown"]
    assert (size := scene.job("grown").run) is not None
    assert size.gpus == 4
    scene.submit("a", gpus=1)
    scene.submit("b", gpus=1)
    assert scene.wait(ROUND_S).preempted == ["grown"]
    assert sorted(scene.exit("grown").started) == ["a", "b", "grown"]
    assert scene.job("grown").gpus == 2


def test_a_training_without_losses_stays_at_its_reference_size() -> None:
    scene = Harness("optimus", gpus=8)
    scene.pending("silent", demand=elastic(1, 2, 8)).plan()
    scene.wait(3 * ROUND_S)
    assert scene.job("silent").gpus == 2
    scene.submit("wide", gpus=8)
    reason = scene.why("wide")
    assert reason is not None
    assert "it has reported no losses" in reason.text
    assert "at its reference size" in reason.text


def test_between_rounds_nobody_is_preempted_and_what_is_free_is_used() -> None:
    scene = Harness("optimus", gpus=2)
    scene.pending("a", gpus=1).plan()
    scene.submit("wide", gpus=2)
    plan = scene.submit("narrow", gpus=1)
    assert (plan.preempted, plan.started) == ([], ["narrow"])


def test_with_smooth_curves_it_knows_the_ends_and_with_realistic_ones_it_does_not() -> None:
    """Two trainings of very different lengths take turns on one GPU until their ends are known."""
    rows = [(0.0, 1, 40_000.0), (0.0, 1, 3_000.0), (0.0, 1, 20_000.0)]
    smooth = simulate(a_trace(rows), "1x1", "optimus", losses="smooth", preemption_cost_s=0.0)
    assert smooth.jobs.sort("finished_at")["id"].to_list() == ["1", "2", "0"]


def test_elastic_jobs_of_a_trace_are_resized_and_end_sooner_where_gpus_are_free() -> None:
    rows = [(60.0 * nth, 2, 9_000.0 + 500.0 * nth) for nth in range(3)]
    sized = a_trace(rows, min_gpus=[1] * 3, max_gpus=[8] * 3)
    elastic, rigid = (
        simulate(trace, "2x8", "optimus", losses="smooth", preemption_cost_s=10.0)
        for trace in (sized, a_trace(rows))
    )
    assert elastic.resizes
    assert elastic.jobs.height == 3
    assert elastic.summary()["avg_jct_s"] < 0.7 * rigid.summary()["avg_jct_s"]


def test_the_worse_the_predictions_the_worse_the_jct() -> None:
    trace = traces.generate("builtin:testbed-480", seed=1)
    jct = {
        losses: simulate(trace, "12x4", "optimus", losses=losses).summary()["avg_jct_s"]
        for losses in ("smooth", "realistic")
    }
    assert jct["smooth"] < jct["realistic"]


def test_a_round_shorter_than_a_preemption_is_refused() -> None:
    with pytest.raises(OptionError, match="round_s=60 is not longer than a preemption, 60 s"):
        simulate(a_trace([(0.0, 1, 10.0)]), "1x1", "optimus", options={"round_s": "60"})


@pytest.mark.parametrize("given", [{"converged": "0"}, {"converged": "2"}, {"young": "-1"}, {"round_s": "0"}])
def test_options_that_make_no_sense_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        simulate(a_trace([(0.0, 1, 10.0)]), "1x1", "optimus", options=given)
