"""A run whose end became known late: its service ends when it ended, everything else when it was known."""

from __future__ import annotations

import pytest

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause
from tiresias.core.model import Cluster, RunId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.testing.builders import a_job


def running() -> Controller:
    """Job 1 holds both GPUs since 10."""
    controller = Controller(State(Cluster.of(1, 2)), policies.make("las"), placers.make("packed"))
    controller.handle([f.JobSubmitted(10.0, a_job(1, 2, submitted_at=10.0))], Step())
    return controller


@pytest.mark.parametrize("cause", [ExitCause.FINISHED, ExitCause.RETRIED])
def test_service_ends_with_the_run(cause: ExitCause) -> None:
    controller = running()
    job = controller.state.jobs[1]
    controller.handle(
        [f.RunEnded(1000.0, RunId(1), 30.0), f.RunExited(1000.0, RunId(1), cause, 20.0)], step := Step()
    )
    assert (job.executed_s, job.service_gpu_s, job.waiting_since) == (20.0, 40.0, 1000.0)
    if cause is ExitCause.FINISHED:
        assert job.ended_at == 1000.0
    else:
        assert [type(fact) for fact in step.facts] == [f.RunGranted], "it runs again at once"
        assert job.service_at(1000.0) == 40.0


def test_a_run_cannot_have_ended_before_it_was_granted_or_after_now() -> None:
    for ended_at in (9.0, 1001.0):
        with pytest.raises(AssertionError, match="ended before its grant"):
            running().handle([f.RunEnded(1000.0, RunId(1), ended_at)], Step())
