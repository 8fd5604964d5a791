"""The one table of legal transitions."""

from __future__ import annotations

import pytest

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.lifecycle import ENDED, HOLDING, TRANSITIONS, IllegalTransition
from tiresias.core.model import Cluster, JobId, Phase, RunId
from tiresias.core.state import State, evolve
from tiresias.testing import a_job


def test_nothing_happens_to_a_job_that_has_ended() -> None:
    for cause, table in TRANSITIONS.items():
        assert not ENDED & table.keys(), cause


def test_every_phase_is_reached_and_every_other_can_be_left() -> None:
    reached = {phase for table in TRANSITIONS.values() for phase in table.values()}
    assert reached | {Phase.PENDING} == set(Phase)
    for phase in set(Phase) - ENDED:
        assert any(table.get(phase, phase) is not phase for table in TRANSITIONS.values()), phase


def test_only_a_grant_makes_a_job_hold_slots() -> None:
    for cause, table in TRANSITIONS.items():
        for before, now in table.items():
            if before not in HOLDING and now in HOLDING:
                assert cause == "RunGranted"


def test_what_is_not_in_the_table_is_named() -> None:
    with pytest.raises(IllegalTransition, match="RunGranted cannot happen to a job that is RUNNING"):
        TRANSITIONS["RunGranted"][Phase.RUNNING]


def test_time_never_goes_back() -> None:
    state = State(Cluster.of(1, 1))
    evolve(state, f.TimerFired(5.0))
    with pytest.raises(AssertionError, match="time went back"):
        evolve(state, f.TimerFired(4.0))


def test_the_phases_of_a_job_follow_from_its_facts() -> None:
    state = State(Cluster.of(1, 4))
    job = evolve(state, f.JobSubmitted(0.0, a_job(1, 4)))
    assert job is not None
    phases = [job.phase]
    life: list[f.Fact] = [
        f.JobHeld(1.0, JobId(1)),
        f.JobReleased(2.0, JobId(1)),
        f.RunGranted(3.0, RunId(1), JobId(1), ((0, 0b1111),)),
        f.RunStarted(5.0, RunId(1)),
        f.RunRevoked(9.0, RunId(1)),
        f.RunExited(10.0, RunId(1), ExitCause.PREEMPTED, 4.0),
        f.JobHeld(11.0, JobId(1)),
        f.JobReleased(12.0, JobId(1)),
        f.RunGranted(20.0, RunId(2), JobId(1), ((0, 0b1111),)),
        f.RunStarted(20.0, RunId(2)),
        f.RunExited(26.0, RunId(2), ExitCause.FINISHED, 10.0),
    ]
    for fact in life:
        evolve(state, fact)
        phases.append(job.phase)
    assert phases == [
        *(Phase.PENDING, Phase.HELD, Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.STOPPING),
        *(Phase.SUSPENDED, Phase.HELD, Phase.SUSPENDED, Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED),
    ]
    assert (job.runs, job.preemptions, job.first_started_at, job.ended_at) == (2, 1, 3.0, 26.0)
    assert (job.executed_s, job.service_gpu_s, job.progress_s) == (13.0, 52.0, 10.0)
    assert not state.jobs, "what has ended leaves the State"
    assert state.ledger.free == 4


def test_a_run_makes_no_progress_while_it_loads_or_saves() -> None:
    state = State(Cluster.of(1, 1))
    job = evolve(state, f.JobSubmitted(0.0, a_job(1)))
    assert job is not None
    evolve(state, f.RunGranted(0.0, RunId(1), JobId(1), ((0, 1),)))
    assert job.progress_at(50.0) == 0
    evolve(state, f.RunStarted(50.0, RunId(1), speed=0.5))
    assert job.progress_at(60.0) == 5
    evolve(state, f.RunProgressed(60.0, RunId(1), 6.0, 1.0))
    assert job.progress_at(64.0) == 10
    evolve(state, f.RunRevoked(64.0, RunId(1)))
    assert job.progress_at(70.0) == 10
    assert job.service_at(70.0) == 70
