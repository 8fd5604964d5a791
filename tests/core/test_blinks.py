"""Instants that lie a blink apart are one: nothing that rounding makes may keep the Controller busy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import SetTimer
from tiresias.core.controller import BLINK_S, Controller, Step
from tiresias.core.model import Cluster, JobId, Rank
from tiresias.core.plugins import Policy, placers, policies
from tiresias.core.state import JobState, State
from tiresias.testing.builders import a_job


@pytest.mark.parametrize(("before_s", "is_pinned"), [(0.0, False), (BLINK_S / 2, False), (3 * BLINK_S, True)])
def test_a_pin_that_ends_in_a_blink_has_ended(
    before_s: float, is_pinned: bool, within: Callable[[float], AbstractContextManager[None]]
) -> None:
    state = State(Cluster.of(1, 1))
    controller = Controller(state, policies.make("las", {"min_run_s": 10}), placers.make("packed"))
    step = Step()
    controller.handle([f.JobSubmitted(0.0, a_job(1, gpus=1))], step)
    controller.handle([f.JobSubmitted(1.0, a_job(2, gpus=1, submitted_at=1.0))], step)
    assert controller.entries[JobId(1)].pinned
    with within(5):
        controller.handle([f.TimerFired(10.0 - before_s)], step)
    invariants.check_plan(controller)
    assert controller.entries[JobId(1)].pinned == is_pinned


class Fleeting(Policy):
    """A rank that has run out whenever it is asked for."""

    name = "fleeting"

    def standing(self, job: JobState, memory: Any, at: float, is_due: bool) -> tuple[Rank, float]:
        return (0.0,), at

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (0.0,)


def test_a_rank_that_runs_out_at_once_is_good_for_two_blinks() -> None:
    """Otherwise time would stand still."""
    controller, step = Controller(State(Cluster.of(1, 1)), Fleeting(), placers.make("packed")), Step()
    controller.handle([f.JobSubmitted(1.0, a_job(1, gpus=1, submitted_at=1.0))], step)
    timers = [command.at for command in step.commands if isinstance(command, SetTimer)]
    assert timers == [1.0 + 2 * BLINK_S]
