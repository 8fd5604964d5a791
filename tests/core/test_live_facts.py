"""What a live manager tells the Controller beyond what a simulation does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiresias.core.model import Demand, Phase, Priority
from tiresias.testing import Harness


def test_a_running_job_that_is_held_stops_and_waits_until_it_is_released() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4).pending("b", gpus=4)
    lab.plan()
    assert lab.hold("a").stopped == ["a"]
    assert lab.job("a").phase is Phase.STOPPING
    assert lab.exit("a").started == ["b"]
    assert lab.job("a").phase is Phase.HELD
    assert lab.job("a").preemptions == 0, "its user wanted it so"
    assert lab.finish("b").started == []
    assert lab.release("a").started == ["a"]


def test_a_job_released_before_it_has_stopped_goes_back_to_the_queue() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4)
    lab.plan()
    lab.hold("a")
    lab.release("a")
    assert lab.job("a").phase is Phase.STOPPING
    assert lab.exit("a").started == ["a"]


def test_a_held_job_that_finishes_all_the_same_has_succeeded() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4)
    lab.plan()
    lab.hold("a")
    assert lab.finish("a").ended == ["a"]


def test_a_requeued_job_stops_and_starts_again_in_its_turn() -> None:
    lab = Harness("fifo-skip", gpus=4).running("a", gpus=4).pending("b", gpus=2)
    lab.plan()
    assert lab.requeue("a").stopped == ["a"]
    assert lab.exit("a").started == ["a"], "it was first in the queue and still is"


def test_a_deferred_job_does_not_block_others_and_queues_again_when_its_time_has_come() -> None:
    lab = Harness("fifo", gpus=4).pending("a", gpus=4).pending("b", gpus=1)
    assert lab.defer("a", "BeginTime", until=100.0).started == ["b"]
    lab.finish("b")
    assert lab.wait(99).started == []
    assert lab.why("a").code == "BeginTime"
    assert lab.wait(1).started == ["a"]


def test_a_deferred_job_without_an_end_waits_until_it_is_cleared() -> None:
    lab = Harness("tiresias-l", gpus=4).pending("a", gpus=4)
    lab.defer("a", "Dependency")
    assert lab.wait(10**6).started == []
    assert lab.clear("a").started == ["a"]


def test_a_job_held_while_deferred_needs_both_to_end() -> None:
    lab = Harness("fifo", gpus=4).held("a", gpus=4)
    lab.defer("a", "BeginTime", until=50.0)
    assert lab.wait(60).started == []
    assert lab.release("a").started == ["a"]


def test_a_run_that_failed_is_tried_again_after_a_pause() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4)
    lab.plan()
    assert lab.retry("a", back_off_s=30).started == []
    assert lab.job("a").phase is Phase.SUSPENDED
    assert lab.wait(29).started == []
    assert lab.wait(1).started == ["a"]


def test_a_change_of_priority_counts_at_once() -> None:
    lab = Harness("tiresias-l", gpus=4).running("a", gpus=4).pending("b", gpus=4)
    lab.plan()
    assert lab.change("b", priority=Priority.HIGH).preempted == ["a"]


def test_a_demand_may_change_before_the_first_run_only() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=4).pending("b", gpus=8)
    lab.plan()
    lab.change("b", demand=Demand(4))
    assert lab.finish("a").started == ["b"]
    with pytest.raises(AssertionError, match="another demand after a run"):
        lab.change("b", demand=Demand(2))


def test_a_slot_out_of_service_is_not_granted() -> None:
    lab = Harness("fifo-skip", gpus=4)
    lab.drain_slot("n0", 1)
    lab.submit("a", gpus=3)
    assert lab.job("a").run.allocation == ((0, 0b1101),)
    assert lab.submit("b", gpus=1).started == []
    assert lab.restore_slot("n0", 1).started == ["b"]


def test_a_slot_that_fails_under_a_run_leaves_with_it() -> None:
    lab = Harness("fifo-skip", gpus=4).running("a", gpus=4).pending("b", gpus=4).pending("c", gpus=3)
    lab.plan()
    lab.drain_slot("n0", 0)
    assert lab.job("a").phase is Phase.RUNNING
    assert lab.finish("a").started == ["c"]
    assert lab.why("b").code == "OutOfService"


@pytest.mark.parametrize("stop", [Harness.hold, Harness.requeue])
def test_a_run_makes_no_progress_from_the_instant_on_at_which_it_must_stop(
    stop: Callable[[Harness, str], object],
) -> None:
    """What it has done by then is what it can save."""
    lab = Harness("fifo", gpus=4).running("a", gpus=4, service_s=100)
    lab.plan()
    stop(lab, "a")
    lab.wait(50)
    run = lab.job("a").run
    assert run is not None
    assert run.work_at(lab.at) == 100.0
    assert lab.job("a").service_at(lab.at) == 4 * 150.0, "it holds its GPUs while it saves"
