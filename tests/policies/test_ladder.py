"""`queues=auto`: thresholds that follow what was seen, and `cost`, which keeps near ranks apart."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core.plugins import OptionError, policies
from tiresias.policies.gradual import SLICE, Transition
from tiresias.policies.ladder import MOST_SEEN, AutoLadder, Histogram
from tiresias.testing import Harness, a_trace, random_trace, story_of

PAPERS = ("tiresias-l", "tiresias-g")


def seen(*services: tuple[int, float]) -> Histogram:
    """So many jobs of each service have ended."""
    histogram = Histogram()
    for count, service in services:
        for _ in range(count):
            histogram.add(service)
    return histogram


def test_a_distribution_of_short_and_long_jobs_gets_a_queue_for_the_short_ones() -> None:
    """Without it, jobs of a minute would wait for jobs of three days in one queue."""
    ladder = AutoLadder().fit(seen((60, 100.0), (10, 50_000.0), (30, 260_000.0)))
    assert ladder.learned == pytest.approx(260_000, rel=0.05)
    assert 100 < ladder.thresholds[0] < 50_000
    below = [threshold for threshold in ladder.thresholds if threshold < 200_000]
    assert len(below) == 1, "nobody ends between the short and the long ones: one threshold is enough"


def test_jobs_of_one_size_get_no_queues_below_the_learned_threshold() -> None:
    ladder = AutoLadder().fit(seen((50, 9_000.0), (50, 11_000.0)))
    assert ladder.thresholds[0] == ladder.learned


def test_a_threshold_is_left_out_where_jobs_behind_it_end_more_often() -> None:
    """Of jobs that all take about a day, those that have had most should go on, not those with the least."""
    ladder = AutoLadder().fit(seen((70, 1_000.0), (10, 7_000.0), (24, 20_000.0)))
    assert ladder.learned == pytest.approx(7_000, rel=0.05)
    assert ladder.learned not in ladder.thresholds
    assert any(threshold > 20_000 for threshold in ladder.thresholds)


def test_thresholds_are_worth_what_a_preemption_wastes() -> None:
    jobs = seen((100, 500.0))
    cheap, dear = AutoLadder().fit(jobs), AutoLadder().fit(jobs, None, 1_000.0)
    assert min(dear.thresholds) >= 20_000 > min(cheap.thresholds)


def test_a_ladder_stays_while_it_is_nearly_right() -> None:
    def spread(scale: float) -> Histogram:
        return seen(*[(128 >> step, scale * 4.0**step) for step in range(8)])

    now = AutoLadder().fit(spread(1_000.0))
    assert AutoLadder().fit(spread(1_800.0), now) == now
    assert AutoLadder().fit(spread(2_500.0), now) != now


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.0, 1e9)), max_size=8),
    st.floats(0.0, 1e6),
    st.sampled_from([1.1, 2.0, 6.0, 40.0]),
)
def test_thresholds_are_positive_and_rise(jobs: list[tuple[int, float]], wasted: float, ratio: float) -> None:
    auto = AutoLadder(0.75, ratio)
    first = auto.fit(seen(*jobs), None, wasted)
    for ladder in (first, auto.fit(seen(*jobs), first, wasted)):
        assert all(0 < a < b for a, b in pairwise([1e-9, *ladder.thresholds]))


def test_what_was_seen_is_forgotten_slowly() -> None:
    histogram = seen((10_000, 100.0))
    histogram.forget(MOST_SEEN)
    assert histogram.count == pytest.approx(MOST_SEEN)
    for _ in range(int(MOST_SEEN) // 3):
        histogram.add(50_000.0)
    assert histogram.quantile(0.75) == pytest.approx(100, rel=0.05), "a quarter of new jobs is not three"
    for _ in range(5):
        for _ in range(int(MOST_SEEN) // 3):
            histogram.add(50_000.0)
        histogram.forget(MOST_SEEN)
    assert histogram.quantile(0.25) == pytest.approx(50_000, rel=0.05)


@pytest.mark.parametrize("policy", PAPERS)
def test_jobs_that_fail_or_are_cancelled_teach_as_those_that_succeed(policy: str) -> None:
    learned = []
    for ends in ("finish", "fail", "cancel"):
        lab = Harness(policy, gpus=4)
        for number in range(30):
            lab.submit(f"job {number}", gpus=1)
            lab.wait(20_000)
            getattr(lab, ends)(f"job {number}")
            if ends == "cancel":
                lab.exit(f"job {number}")
        learned.append(lab.state.memory.now.ladder)
    assert learned[0] == learned[1] == learned[2]
    assert learned[0].learned == pytest.approx(20_000, rel=0.05)


def test_a_job_that_never_ran_teaches_nothing() -> None:
    lab = Harness("tiresias-l", gpus=1).running("a")
    lab.plan()
    lab.submit("b")
    lab.cancel("b")
    assert lab.state.memory.seen.count == 0


# --- cost


def near(cost: str) -> Harness:
    """`a` has just fallen into the second queue; `b` is about to."""
    lab = Harness("tiresias-l", gpus=4, options={"queues": "1000", "order": "running-first", "cost": cost})
    return lab.running("a", gpus=4, service_s=255).suspended("b", gpus=4, service_s=240)


def test_without_a_cost_jobs_of_nearly_the_same_service_preempt_each_other() -> None:
    assert near("0").plan().preempted == ["a"]


def test_with_a_cost_they_do_not() -> None:
    assert near("60").plan().preempted == []


@pytest.mark.parametrize("cost", ["0", "60"])
def test_a_job_that_has_had_much_gives_way_whatever_that_costs(cost: str) -> None:
    lab = Harness("tiresias-l", gpus=4, options={"queues": "3600", "cost": cost})
    lab.running("a", gpus=4, service_s=90_000)
    lab.plan()
    assert lab.submit("b", gpus=4).preempted == ["a"]


def test_by_default_the_cost_is_what_preemptions_were_seen_to_take() -> None:
    """Nothing is known at first; then a run needs five minutes to save, and near ranks stay apart."""
    lab = Harness("tiresias-l", gpus=4, options={"queues": "1000", "order": "running-first"})
    lab.running("a", gpus=4, service_s=255).suspended("b", gpus=4, service_s=240)
    assert lab.plan().preempted == ["a"]
    lab.wait(300)
    lab.exit("a")
    assert lab.state.memory.costs.cost()[0] == 300
    lab.submit("c", gpus=4)
    lab.wait(5)
    assert lab.wait(100).preempted == [], "b has fallen too, and is near to a and c"


@pytest.mark.parametrize("policy", PAPERS)
def test_cost_0_ranks_as_the_paper_does_whatever_preemptions_take(policy: str) -> None:
    trace = a_trace(random_trace(Random(4), 60, longest_s=2000, gap_s=20))
    options = {"queues": "500,5000", "order": "running-first"}
    by_cost = {
        cost: story_of(trace, "2x4", policy, options={**options, "cost": cost}).result.summary()
        for cost in ("0", "60", "auto")
    }
    assert by_cost["60"]["preemptions"] < by_cost["0"]["preemptions"]
    assert by_cost["auto"]["preemptions"] < by_cost["0"]["preemptions"]


@pytest.mark.parametrize("wrong", ["-1", "inf", "cheap"])
def test_a_cost_that_is_none_is_named(wrong: str) -> None:
    with pytest.raises(OptionError, match=f"cost='?{wrong}.*seconds, 0 or more, such as 60, or auto"):
        policies.make("tiresias-l", {"cost": wrong})


# --- new knowledge takes effect by and by


def test_jobs_go_over_in_slices_the_youngest_first() -> None:
    transition = Transition()
    transition.see(2 * SLICE)
    assert transition.is_over
    transition.begin()
    slices = []
    while not transition.is_over:
        slices.append(transition.advance())
        assert transition.save() == Transition(transition.save()).save()
    assert sorted(id for ids in slices for id in ids) == list(range(2 * SLICE + 1))
    assert all(len(ids) <= SLICE for ids in slices)
    assert slices[0][-1] == 2 * SLICE


@pytest.mark.parametrize("policy", PAPERS)
def test_a_memory_is_the_same_after_it_was_stored(policy: str) -> None:
    lab = Harness(policy, gpus=4, options={"learn_after": "3"} if policy == "tiresias-g" else {})
    for number in range(SLICE + 40):
        lab.submit(f"job {number}", gpus=1)
        lab.wait(7_000 if number < 100 else 70_000)
        lab.finish(f"job {number}")
        made = lab.controller.policy
        saved = json.loads(json.dumps(made.save(lab.state.memory)))
        assert json.loads(json.dumps(made.save(made.restore(saved)))) == saved


def test_a_memory_of_a_version_that_knew_no_costs_is_understood() -> None:
    made = policies.make("tiresias-l", {"cost": "60"})
    memory = made.restore(
        {"ladder": [500.0, 3000.0], "table": None, "seen": [[110, 4]], "refit_at": 5, "promoted": []}
    )
    assert memory.now.thresholds == (500.0, 3000.0)
    assert memory.seen.count == 4
    assert memory.now.costs == {"": (0.0, 60.0)}
