"""Tiresias' queues: demotion at the exact instant, promotion of starving jobs, the shortest run."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace, story_of

Within = Callable[[float], AbstractContextManager[None]]
ORDERS = ("first-start", "running-first", "last-preempted-first")


def queues(thresholds: str, **more: object) -> dict[str, object]:
    return {"queues": thresholds, "order": "running-first", **more}


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 7])
def test_a_job_is_demoted_at_the_exact_instant(gpus: int) -> None:
    lab = Harness("tiresias-l", gpus=8, options=queues("1000,2000"))
    lab.running("a", gpus=gpus).plan()
    assert lab.timer_at == pytest.approx(1000 / gpus, rel=1e-12)
    lab.wait(1000 / gpus - 0.01)
    assert lab.queue_of("a") == 1
    lab.wait(0.01)
    assert lab.queue_of("a") == 2
    assert lab.timer_at == pytest.approx(2000 / gpus, rel=1e-12)
    lab.wait(1000 / gpus)
    assert lab.queue_of("a") == 3
    assert lab.timer_at == float("inf"), "there is nothing below the last queue"


@pytest.mark.parametrize("start", [0.0, 1_500_000_000.0])
@pytest.mark.parametrize("gpus", [1, 3, 7])
def test_the_demotion_makes_room_at_that_instant(start: float, gpus: int) -> None:
    trace = a_trace([(start, gpus, 2000.0), (start + 1.0, 8, 10.0)])
    story = story_of(trace, "1x8", "tiresias-l", options=queues("1000"), preemption_cost_s=0)
    assert story.result.jobs["preemptions"].to_list() == [1, 0]
    assert story.result.jobs["first_started_at"][1] - start == pytest.approx(1000 / gpus, abs=1e-6)


def test_service_counts_over_all_runs() -> None:
    lab = Harness("tiresias-l", gpus=4, options=queues("1000")).suspended("a", gpus=4, service_s=200)
    assert lab.plan().started == ["a"]
    assert lab.timer_at == 50


def test_service_is_held_gpus_not_work() -> None:
    """Saving and loading count: they keep others out."""
    lab = Harness("tiresias-l", gpus=4, options=queues("1000"))
    lab.running("a", gpus=4, service_s=240).pending("b", gpus=4, priority="high")
    assert lab.plan().preempted == ["a"]
    lab.wait(20)
    lab.exit("a")
    assert lab.job("a").service_at(lab.at) == 1040
    assert lab.queue_of("a") == 2


def test_a_starving_job_goes_back_to_the_first_queue() -> None:
    lab = Harness("tiresias-l", gpus=4, options=queues("1000", promote_knob="2"))
    lab.suspended("a", gpus=4, service_s=300, waited_s=0).pending("b", gpus=4)
    assert lab.plan().started == ["b"]
    assert lab.wait(599).promoted == []
    assert lab.queue_of("a") == 2
    plan = lab.wait(1)
    assert (plan.promoted, plan.preempted) == (["a"], ["b"]), "b has fallen behind meanwhile"
    assert lab.queue_of("a") == 1


def test_promotion_counts_service_and_waiting_anew() -> None:
    lab = Harness("tiresias-l", gpus=4, options=queues("1000", promote_knob="2"))
    lab.suspended("a", gpus=4, service_s=300, waited_s=599).running(
        "b", gpus=4, service_s=10, priority="high"
    ).plan()
    assert lab.wait(1).promoted == ["a"]
    lab.finish("b")
    assert lab.queue_of("a") == 1
    lab.wait(249)
    assert lab.queue_of("a") == 1, "the 300 s of before do not count"
    assert lab.submit("c", gpus=4).preempted == []
    assert lab.wait(1).preempted == ["a"]
    lab.exit("a")
    assert lab.wait(499).promoted == []
    assert lab.wait(1).promoted == ["a"], "twice the 250 s it executed since its promotion"


def test_only_a_job_that_has_run_is_promoted() -> None:
    lab = Harness("tiresias-l", gpus=4, options=queues("1000", promote_knob="0.01"))
    lab.running("a", gpus=4, service_s=10, preemptible=False).pending("b", gpus=4).plan()
    assert lab.wait(1e6).promoted == []


def test_no_job_is_promoted_unless_promotion_is_on() -> None:
    lab = Harness("tiresias-l", gpus=4, options=queues("1000"))
    lab.suspended("a", gpus=4, service_s=300).running("b", gpus=4, preemptible=False).plan()
    assert lab.wait(1e7).promoted == []


def test_a_job_that_starves_already_when_its_run_exits_is_promoted_then(within: Within) -> None:
    """It waited long for its first start, ran shortly, was demoted and preempted."""
    lab = Harness("tiresias-l", gpus=4, options=queues("1000", promote_knob="1"))
    lab.running("a", gpus=4, service_s=300, submitted_at=-5000.0).pending("b", gpus=4)
    assert lab.plan().preempted == ["a"]
    with within(2):
        assert lab.exit("a").promoted == ["a"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_run_is_not_preempted_before_its_shortest_time(order: str) -> None:
    lab = Harness("tiresias-l", gpus=4, options={"queues": "1000", "order": order, "min_run_s": "400"})
    lab.running("a", gpus=4, service_s=300).pending("b", gpus=4)
    assert lab.plan().preempted == [], "it is in the second queue, but has run for 300 s only"
    assert lab.wait(99).preempted == []
    assert lab.wait(1).preempted == ["a"]


@pytest.mark.parametrize("policy", ["las", "srtf", "srsf", "tiresias-g"])
def test_every_policy_that_preempts_knows_the_shortest_run(policy: str) -> None:
    options = {"min_run_s": "50"} | ({"quantum_s": "10"} if policy == "las" else {})
    lab = Harness(policy, gpus=4, options=options)
    lab.running("a", gpus=4, service_s=20, duration_s=900.0).plan()
    assert lab.submit("b", gpus=4, duration_s=5.0, priority="high").preempted == []
    assert lab.wait(29.5).preempted == []
    assert lab.wait(0.5).preempted == ["a"]


@pytest.mark.parametrize("order", ORDERS)
def test_with_a_shortest_run_below_the_loading_time_all_jobs_still_finish(order: str, within: Within) -> None:
    trace = a_trace([(112.0, 8, 70.0), (112.0, 1, 164.0)])
    options = {"queues": "50,64,1000", "order": order, "min_run_s": "30"}
    with within(2):
        result = simulate(trace, "1x8", "tiresias-l", options=options, placer="count")
    assert result.jobs.height == 2


def test_a_job_of_very_many_gpus_crosses_its_threshold(within: Within) -> None:
    at = 1_500_000_000.123456
    lab = Harness("tiresias-l", gpus=8, nodes=20_000, options=queues("333333.3,1000000"))
    lab.at = at
    with within(2):
        lab.submit("a", gpus=150_001)
        lab.wait(100)
        assert lab.queue_of("a") == 3


def test_with_promotion_and_a_first_queue_below_the_loading_time_a_least_run_lets_all_finish(
    within: Within,
) -> None:
    """Without it each would be promoted, load, and be demoted before it has worked, for ever."""
    trace = a_trace([(60.0, 8, 72.0), (60.0, 1, 17.0), (60.0, 8, 38.0)])
    with within(5):
        result = simulate(trace, "1x8", "tiresias-l", options=queues("16", promote_knob="2", min_run_s="60"))
    assert result.jobs.height == 3


def test_what_is_remembered_of_a_promotion_goes_with_the_job() -> None:
    for ends in (Harness.cancel, Harness.fail):
        lab = Harness("tiresias-l", gpus=4, options=queues("1000", promote_knob="1"))
        lab.suspended("a", gpus=4, service_s=300, waited_s=299).running("b", gpus=4, preemptible=False).plan()
        assert lab.wait(1).promoted == ["a"]
        empty = json.dumps(lab.controller.policy.save(lab.controller.policy.new_memory()))
        lab.finish("b")
        ends(lab, "a")
        if "a" in [lab.name(id) for id in lab.state.jobs]:
            lab.exit("a")
        remembered = lab.controller.policy.save(lab.state.memory)
        assert remembered["promoted"] == json.loads(empty)["promoted"]
