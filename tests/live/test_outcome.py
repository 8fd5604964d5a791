"""What becomes of a job when one of its runs has ended: how often it is run again, and after which pause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tiresias.core.facts import ExitCause
from tiresias.core.model import RunId
from tiresias.executors.base import RunGone, WorkerExit
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.outcome import Outcome, decide
from tiresias.live.settings import Settings
from tiresias.live.submission import Submission

SETTINGS = Settings(backoff_s=10.0, most_backoff_s=60.0, most_lost_runs=3, most_quick_requeues=2, quick_s=5.0)
LOST = RunGone(RunId(1), lost=True, error="the machine was restarted")
ASKS_AGAIN = RunGone(RunId(1), exits=(WorkerExit(code=75),), first_failed=0)
FAILS = RunGone(
    RunId(1),
    exits=(WorkerExit(code=1),),
    first_failed=0,
    tail="ConnectionResetError: Connection reset by peer",
)


def lives(gone: RunGone, lasted_s: float = 1.0, most: int = 20, **asked: Any) -> list[Outcome]:
    """What becomes of a job all of whose runs end like this, until it has failed."""
    job, found = ManagedJob(Submission(("train",), "/", **asked)), []
    for _ in range(most):
        outcome = decide(gone, job, lasted_s, said_finished=False, settings=SETTINGS)
        found.append(outcome)
        if outcome.exit not in (ExitCause.RETRIED, ExitCause.PREEMPTED):
            break
        job = replace(job, **outcome.counts)
    return found


def test_a_job_whose_runs_are_lost_is_run_again_so_often_and_the_pauses_grow() -> None:
    found = lives(LOST, retries=0)
    assert [each.exit for each in found] == [ExitCause.RETRIED] * 3 + [ExitCause.FAILED]
    assert [each.backoff_s for each in found] == [0.0, 20.0, 40.0, 0.0]
    assert {each.code for each in found} == {"Lost"}


def test_lost_runs_use_up_no_retries_and_retries_come_after_them() -> None:
    found = lives(LOST, retries=2)
    assert [each.counts for each in found] == [
        {"lost_runs": 1},
        {"lost_runs": 2},
        {"lost_runs": 3},
        {"retries_used": 1},
        {"retries_used": 2},
        {},
    ]


def test_a_failure_that_a_retry_can_cure_is_retried_with_growing_pauses_up_to_the_longest() -> None:
    found = lives(FAILS, retries=5)
    assert [each.backoff_s for each in found] == [10.0, 20.0, 40.0, 60.0, 60.0, 0.0]
    assert found[-1].exit is ExitCause.FAILED
    assert found[-1].sentence.endswith("All 5 retries are used up.")


def test_a_job_without_retries_fails_at_once_and_says_nothing_of_retries() -> None:
    [only] = lives(FAILS, retries=0)
    assert only.exit is ExitCause.FAILED
    assert "retries" not in only.sentence
    assert not only.is_deterministic


def test_a_run_that_asks_at_once_to_be_run_again_may_do_so_a_few_times() -> None:
    found = lives(ASKS_AGAIN, lasted_s=5.0)
    assert [each.exit for each in found] == [ExitCause.PREEMPTED, ExitCause.PREEMPTED, ExitCause.FAILED]
    assert [each.backoff_s for each in found] == [0.0, 20.0, 0.0]
    assert found[-1].code == "RequeueLoop"
    assert found[-1].sentence == "It asked to be run again 3 times in a row within 5 s."


def test_a_run_that_has_worked_for_a_while_may_ask_to_be_run_again_as_often_as_it_likes() -> None:
    found = lives(ASKS_AGAIN, lasted_s=5.1)
    assert [each.exit for each in found] == [ExitCause.PREEMPTED] * 20
    assert {each.backoff_s for each in found} == {0.0}
    assert all(each.counts == {"quick_requeues": 0} for each in found)


@pytest.mark.parametrize("lasted_s", [1.0, 100.0])
def test_a_run_that_was_stopped_is_no_request_to_be_run_again(lasted_s: float) -> None:
    job = ManagedJob(Submission(("train",), "/"), quick_requeues=2)
    stopped = replace(ASKS_AGAIN, stopped=True)
    outcome = decide(stopped, job, lasted_s, said_finished=False, settings=SETTINGS)
    assert (outcome.exit, outcome.counts) == (ExitCause.PREEMPTED, {"quick_requeues": 0})
