"""A dry run says what a submission would bring about, and brings nothing about."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import facts as f
from tiresias.core.commands import StartRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause
from tiresias.core.model import Cluster, Demand, Job, JobId, Priority
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.live.preview import preview

POLICIES = (
    ("fifo", {}),
    ("fifo-skip", {}),
    ("las", {"quantum_s": "5"}),
    ("tiresias-l", {"queues": "20,200"}),
    ("tiresias-l", {"queues": "50", "min_run_s": "10"}),
)


def a_controller(policy: str, options: dict[str, str]) -> Controller:
    state = State(Cluster.of(2, 4))
    return Controller(state, policies.make(policy, options), placers.make("packed", {}))


def a_job(rng: Random, id: int, at: float) -> Job:
    return Job(JobId(id), Demand(rng.choice((1, 1, 2, 3, 4, 8))), at, priority=rng.choice(list(Priority)))


def something(rng: Random, controller: Controller, id: int, at: float) -> f.Fact:
    """What may happen next."""
    state = controller.state
    running = list(state.runs.values())
    if running and rng.random() < 0.4:
        run = rng.choice(running)
        cause = ExitCause.PREEMPTED if state.jobs[run.job_id].phase == "STOPPING" else ExitCause.FINISHED
        return f.RunExited(at, run.id, cause, 0.0)
    if rng.random() < 0.3:
        return f.TimerFired(at)
    return f.JobSubmitted(at, a_job(rng, id, at))


def really(controller: Controller, job: Job, at: float) -> tuple[list[str], list[int]]:
    """Slots and displaced jobs when a copy of the controller is given the job."""
    copied, step = deepcopy(controller), Step()
    copied.handle([f.JobSubmitted(at, job)], step)
    starts = [each for each in step.commands if isinstance(each, StartRun) and each.job_id == job.id]
    slots = list(copied.state.ledger.slot_names(starts[0].allocation)) if starts else []
    revoked = [each.run_id for each in step.facts if isinstance(each, f.RunRevoked)]
    return slots, sorted(copied.state.runs[id].job_id for id in revoked)


@pytest.mark.parametrize("policy", range(len(POLICIES)))
@pytest.mark.parametrize("seed", range(4))
def test_what_is_foretold_comes_true_and_nothing_else_changes(policy: int, seed: int) -> None:
    rng = Random(seed)
    looked_at, left_alone = a_controller(*POLICIES[policy]), a_controller(*POLICIES[policy])
    at, seen = 0.0, set()
    for id in range(1, 120):
        at += rng.choice((0.0, 0.5, 3.0, 11.0))
        steps = (Step(), Step())
        fact = something(rng, looked_at, id, at)
        looked_at.handle([fact], steps[0])
        left_alone.handle([fact], steps[1])
        assert steps[0].facts == steps[1].facts, (seed, id, "a dry run changed a decision")
        later = at + rng.choice((0.0, 2.0))
        looked_at.handle([f.TimerFired(later)], Step())  # what is due is done before one is asked
        left_alone.handle([f.TimerFired(later)], Step())
        at = later
        job = a_job(rng, 1000, later)
        told = preview(looked_at, job, later)
        slots, displaced = really(looked_at, job, later)
        assert (told.slots, told.displaces) == (slots, displaced), (seed, id, told)
        assert told.starts_now == bool(slots)
        assert told.starts_now or told.why is not None
        seen.add((bool(slots), bool(displaced)))
    assert (True, False) in seen, "none would have started"
    assert (False, False) in seen, "all would have started"
