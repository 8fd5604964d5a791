"""The three orders inside a queue, distinguished by scenarios. All jobs are in one queue, or fall into it."""

from __future__ import annotations

import pytest

from tiresias.core import facts as f
from tiresias.testing import Harness, a_trace, story_of
from tiresias.testing.checkers import check_story


def lab(order: str, thresholds: str = "100000") -> Harness:
    return Harness("tiresias-l", gpus=4, options={"queues": thresholds, "order": order})


@pytest.mark.parametrize(
    ("order", "preempted"),
    [("first-start", ["b"]), ("running-first", []), ("last-preempted-first", [])],
)
def test_only_by_first_start_a_waiting_job_takes_over_from_one_of_its_queue(
    order: str, preempted: list[str]
) -> None:
    scene = lab(order).suspended("a", gpus=4, service_s=10).running("b", gpus=4, service_s=5)
    assert scene.plan().preempted == preempted


@pytest.mark.parametrize(
    ("order", "next_one"),
    [("first-start", "a"), ("running-first", "a"), ("last-preempted-first", "b")],
)
def test_the_order_decides_which_of_two_preempted_jobs_goes_on_first(order: str, next_one: str) -> None:
    scene = lab(order)
    scene.suspended("a", gpus=4, service_s=10, waited_s=50).suspended("b", gpus=4, service_s=10, waited_s=20)
    scene.running("c", gpus=4, service_s=10, priority="high")
    scene.plan()
    assert scene.finish("c").started == [next_one]


@pytest.mark.parametrize("order", ["first-start", "running-first", "last-preempted-first"])
def test_a_job_that_has_started_is_ahead_of_one_that_has_not(order: str) -> None:
    scene = lab(order).pending("new", gpus=4, waited_s=9999).suspended("a", gpus=4, service_s=10, waited_s=5)
    assert scene.plan().started == ["a"]


@pytest.mark.parametrize("order", ["first-start", "running-first", "last-preempted-first"])
def test_the_new_go_by_submission(order: str) -> None:
    scene = lab(order).pending("b", gpus=4, waited_s=5).pending("a", gpus=4, waited_s=6)
    assert scene.plan().started == ["a"]


@pytest.mark.parametrize(
    ("order", "preempted"),
    [("first-start", []), ("running-first", []), ("last-preempted-first", ["falls"])],
)
def test_falling_into_a_queue_where_another_waits(order: str, preempted: list[str]) -> None:
    scene = lab(order, "1000").running("falls", gpus=4, service_s=249, submitted_at=-9999.0)
    scene.suspended("waits", gpus=4, service_s=300, waited_s=249)
    if order == "first-start":  # the job that started first goes on: here that is the one that falls
        scene = (
            lab(order, "1000")
            .suspended("falls", gpus=4, service_s=10)
            .suspended("waits", gpus=4, service_s=300)
        )
        scene.running("other", gpus=4, service_s=1, priority="high").plan()
        assert scene.finish("other").started == ["falls"]
        assert scene.wait(240).preempted == preempted
        return
    scene.plan()
    assert scene.wait(1).preempted == preempted


def test_a_job_that_falls_into_a_queue_and_cannot_run_on_waits_at_its_end() -> None:
    scene = lab("last-preempted-first", "1000")
    scene.suspended("waits", gpus=2, service_s=600, waited_s=249).running("falls", gpus=4, service_s=249)
    scene.plan()
    assert scene.wait(1).preempted == ["falls"]
    assert scene.exit("falls").started == ["waits"], "it was preempted for this job"
    assert scene.submit("new", gpus=2).started == ["new"]


@pytest.mark.parametrize(
    ("order", "preempted"),
    [("first-start", []), ("running-first", []), ("last-preempted-first", ["d", "c"])],
)
def test_of_several_that_fall_together_only_those_without_room_are_preempted(
    order: str, preempted: list[str]
) -> None:
    """Four jobs fall at one instant into the queue in which another waits for four of their eight GPUs."""
    scene = Harness("tiresias-l", gpus=12, options={"queues": "600", "order": order})
    for name in ("a", "b", "c", "d"):
        scene.running(name, gpus=2, service_s=299)
    scene.suspended("waits", gpus=4, service_s=160, waited_s=100)
    scene.running("other", gpus=4, service_s=100, priority="high")
    scene.plan()
    assert [scene.queue_of(name) for name in ("a", "d", "waits")] == [1, 1, 2]
    assert scene.wait(1).preempted == preempted, "the last in rank is revoked first"
    assert [scene.queue_of(name) for name in ("a", "d", "waits")] == [2, 2, 2]


@pytest.mark.parametrize(
    ("order", "revoked"),
    [
        ("running-first", [(75, 0), (375, 2), (875, 2), (875, 3), (987.5, 0)]),
        (
            "last-preempted-first",
            [(75, 0), (375, 2), (675, 2), (675, 3), (700, 0), (900, 2), (900, 3), (987.5, 0)],
        ),
    ],
)
def test_a_job_that_falls_is_not_preempted_for_a_job_that_it_then_preempts(
    order: str, revoked: list[tuple[float, int]]
) -> None:
    rows = [(0.0, 8, 796.0), (0.0, 2, 362.0), (31.0, 2, 898.0), (31.0, 1, 1500.0), (77.0, 4, 4.0)]
    options = {"queues": "600,800,1500", "order": order}
    story = story_of(a_trace(rows), "1x8", "tiresias-l", options=options, preemption_cost_s=0)
    check_story(story)
    runs = story.grants()
    revocations = [fact for fact in story.facts if isinstance(fact, f.RunRevoked)]
    assert [(fact.at, runs[fact.run_id].job_id) for fact in revocations] == revoked
