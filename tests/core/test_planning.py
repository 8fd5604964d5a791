"""Which jobs run, wait and give way: scenarios of one plan and what follows it."""

from __future__ import annotations

import pytest

from tiresias.core.model import Phase, Priority
from tiresias.testing import Harness

TWO_QUEUES = {"queues": "1000", "order": "running-first"}
PREEMPTIVE = ("tiresias-l", "las", "srtf", "srsf")


def test_least_service_goes_first() -> None:
    plan = Harness("las", gpus=4).running("a", gpus=4, service_s=1000).pending("b", gpus=4).plan()
    assert plan.preempted == ["a"]
    assert plan.started == []


def test_a_job_in_the_lower_queue_gives_way_to_one_in_the_first() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    assert lab.running("a", gpus=4, service_s=250).pending("b", gpus=4).plan().preempted == ["a"]


def test_a_job_in_the_same_queue_does_not() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    plan = lab.running("a", gpus=4, service_s=249).pending("b", gpus=4).plan()
    assert (plan.preempted, plan.started) == ([], [])


def test_a_job_that_does_not_fit_is_skipped() -> None:
    lab = Harness("fifo-skip", gpus=4).running("a", gpus=2).pending("b", gpus=4).pending("c", gpus=2)
    assert lab.plan().started == ["c"]


def test_in_strict_order_a_job_that_does_not_fit_blocks_all_jobs_behind_it() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=2).pending("b", gpus=4).pending("c", gpus=2)
    assert lab.plan().started == []
    assert lab.finish("a").started == ["b"]
    assert lab.finish("b").started == ["c"]


def test_no_more_are_preempted_than_needed() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    for name in ("a", "b", "c", "d"):
        lab.running(name, gpus=1, service_s=1000)
    assert lab.pending("e", gpus=2).plan().preempted == ["d", "c"]


def test_slots_are_free_only_after_the_exit() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=2, service_s=500).running("b", gpus=2, service_s=500).pending("c", gpus=4)
    assert sorted(lab.plan().preempted) == ["a", "b"]
    lab.wait(5)
    assert lab.exit("a").started == []
    lab.wait(5)
    assert lab.exit("b").started == ["c"]


def test_a_victim_cannot_steal_back_what_it_was_preempted_for() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=1, service_s=1000).running("b", gpus=3, service_s=400).pending("c", gpus=4)
    assert sorted(lab.plan().preempted) == ["a", "b"]
    plan = lab.exit("a")
    assert plan.started == [], "one GPU is free, but it is c's"
    assert lab.exit("b").started == ["c"]


def test_free_slots_that_the_target_does_not_need_are_used_meanwhile() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=3, service_s=400).pending("b", gpus=3).pending("c", gpus=1)
    plan = lab.plan()
    assert (plan.preempted, plan.started) == (["a"], ["c"])


def test_a_saving_run_whose_turn_comes_again_starts_after_its_exit() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=4, service_s=400).pending("b", gpus=4)
    assert lab.plan().preempted == ["a"]
    lab.cancel("b")
    assert lab.job("a").phase is Phase.STOPPING
    assert lab.exit("a").started == ["a"]


def test_what_is_not_preemptible_stays() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=2, service_s=9000, preemptible=False).running("b", gpus=2, service_s=9000)
    assert lab.pending("c", gpus=4).plan().preempted == []
    assert lab.submit("d", gpus=2).preempted == ["b"]


def test_priorities_are_above_the_policy() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("low", gpus=2, priority=Priority.LOW).running(
        "high", gpus=2, service_s=9000, priority=Priority.HIGH
    )
    assert lab.pending("normal", gpus=2).plan().preempted == ["low"]


def test_ties_go_by_submission_then_by_number() -> None:
    lab = Harness("sjf", gpus=1)
    lab.pending("late", duration_s=5.0, waited_s=1).pending("early", duration_s=5.0, waited_s=2)
    lab.pending("same", duration_s=5.0, waited_s=2)
    assert lab.plan().started == ["early"]
    assert lab.finish("early").started == ["same"]


def test_held_jobs_wait_until_released() -> None:
    lab = Harness("fifo", gpus=4).held("a", gpus=4).pending("b", gpus=2)
    assert lab.plan().started == ["b"], "a job on hold blocks no other"
    assert lab.finish("b").started == []
    assert lab.release("a").started == ["a"]


def test_a_job_held_after_it_ran_goes_on_where_it_was() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES).suspended("a", gpus=4, service_s=100)
    lab.hold("a")
    assert lab.job("a").phase is Phase.HELD
    assert lab.release("a").started == ["a"]
    assert lab.job("a").service_at(lab.at) == 400


def test_holding_what_was_about_to_start_gives_the_turn_to_the_next() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=4, service_s=400).pending("b", gpus=4)
    lab.plan()
    lab.hold("b")
    assert lab.exit("a").started == ["a"]


def test_cancelling_a_waiting_job_ends_it_at_once() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4).pending("b", gpus=4).pending("c", gpus=4)
    lab.plan()
    assert lab.cancel("b").ended == ["b"]
    assert lab.finish("a").started == ["c"]


@pytest.mark.parametrize("policy", ["fifo", "tiresias-l", "srtf"])
def test_a_cancelled_run_is_stopped_and_its_job_never_runs_again(policy: str) -> None:
    lab = Harness(policy, gpus=4).running("a", gpus=4, duration_s=9.0).pending("b", gpus=4, duration_s=9.0)
    lab.plan()
    assert lab.cancel("a").stopped == ["a"]
    plan = lab.exit("a")
    assert (plan.ended, plan.started) == (["a"], ["b"])


def test_a_job_cancelled_while_it_saves_ends_with_its_run() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=4, service_s=400).pending("b", gpus=4).plan()
    lab.cancel("a")
    plan = lab.exit("a")
    assert (plan.ended, plan.started) == (["a"], ["b"])


def test_a_failed_run_ends_its_job() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4).pending("b", gpus=4)
    lab.plan()
    plan = lab.fail("a")
    assert (plan.ended, plan.started) == (["a"], ["b"])


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", *PREEMPTIVE])
def test_a_run_that_exits_without_a_stop_is_started_again(policy: str) -> None:
    lab = Harness(policy, gpus=4).running("a", gpus=4, service_s=5, duration_s=50.0)
    lab.plan()
    assert lab.exit("a").started == ["a"]


def test_the_state_alone_is_enough_to_go_on() -> None:
    """A Controller made over a State plans as the one that brought it about would have."""
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.suspended("old", gpus=2, service_s=600).running("young", gpus=2, service_s=10).pending("new", gpus=2)
    assert lab.plan().started == ["new"]
    assert lab.ranked() == ["young", "new", "old"]
