"""A policy or a placer raises an exception at any moment: no fact is lost, and no decision is half made."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allocation, ExitCause
from tiresias.core.holes import Holes
from tiresias.core.model import Cluster, JobId, Node, Phase, Rank, RunId
from tiresias.core.plugins import Policy, placers, policies
from tiresias.core.state import JobState, State, evolve
from tiresias.placers.packed import Packed
from tiresias.policies.paper import TiresiasL
from tiresias.testing.builders import a_job
from tiresias.testing.fuzz import RandomDriver


class Broken(Exception):
    """What the plug-ins of these tests raise."""


class Fragile(TiresiasL):
    """Ranks, decides and learns like tiresias-l, and raises at its call number `fails_at`."""

    name = "fragile"
    learns = frozenset({f.RunExited, f.JobSubmitted})
    fails_at = -1
    calls = 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise Broken(self.calls)

    def standing(self, job: JobState, memory: Any, at: float, is_due: bool) -> tuple[Rank, float]:
        self._count()
        return super().standing(job, memory, at, is_due)

    def due(self, job: JobState, memory: Any, at: float) -> f.Fact | None:
        self._count()
        return super().due(job, memory, at)

    def learn(self, memory: Any, fact: Any, job: JobState | None) -> bool:
        self._count()
        return self.calls % 5 == 0


class FragilePlacer(Packed):
    name = "fragile-placer"
    waits = True
    fails_at = -1
    calls = 0

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise Broken(self.calls)
        return None if self.calls % 7 == 0 else super().place(job, holes, at, refused_since)


def a_cluster() -> State:
    return State(Cluster([Node("a", 4), Node("b", 4)]))


def a_fragile_controller() -> tuple[Controller, Fragile, FragilePlacer]:
    policy, placer = Fragile(), FragilePlacer()
    return Controller(a_cluster(), policy, placer), policy, placer


class Watch(RandomDriver):
    """Notes what was decided in the step in which a plug-in failed."""

    failed_in: tuple[State, list[f.Fact], Step] | None = None

    def handle(self, facts: list[f.Fact]) -> None:
        before = copy.deepcopy(self.state)
        try:
            super().handle(facts)
        except Broken:
            self.failed_in = before, facts, self._step


@pytest.mark.parametrize("which", ["policy", "placer"])
@pytest.mark.parametrize("seed", range(4))
def test_wherever_a_plugin_raises_all_facts_and_decisions_have_taken_effect(which: str, seed: int) -> None:
    for call in (*range(1, 40), *range(40, 400, 17)):
        controller, policy, placer = a_fragile_controller()
        (policy if which == "policy" else placer).fails_at = call
        driver = Watch(controller, Random(seed))
        for _ in range(120):
            driver.happen()
            if driver.failed_in is not None:
                break
        if driver.failed_in is None:
            continue
        before, facts, step = driver.failed_in
        assert controller.failure is not None
        assert controller.failure.kind == which
        assert controller.failure.file == __file__
        assert controller.failure.line > 0
        invariants.check(controller.state)
        known = before.jobs.keys() | {fact.job.id for fact in facts if isinstance(fact, f.JobSubmitted)}
        for fact in (*facts, *step.facts):
            evolve(before, fact)
        assert told(before) == told(controller.state)
        assert {job.id for job in step.ended} == known - controller.state.jobs.keys()
        started = [each.run_id for each in step.commands if isinstance(each, StartRun)]
        stopped = [each.run_id for each in step.commands if isinstance(each, StopRun)]
        assert started == [fact.run_id for fact in step.facts if isinstance(fact, f.RunGranted)]
        assert {fact.run_id for fact in step.facts if isinstance(fact, f.RunRevoked)} <= set(stopped)
        for job in controller.state.jobs.values():  # each run that must stop was commanded to stop
            if job.phase is Phase.STOPPING and before.jobs[job.id].run is not None:
                assert job.run is not None
                assert job.run.id in driver.stopped | set(stopped)


def told(state: State) -> Any:
    jobs = {id: (job.phase, job.runs, job.preemptions, job.progress_s) for id, job in state.jobs.items()}
    return jobs, dict(state.ledger.allocations), list(state.ledger.free_slots), state.next_run_id


def fail_now(controller: Controller, policy: Fragile, fact: f.Fact) -> Step:
    policy.fails_at, policy.calls = 1, 0
    step = Step()
    with pytest.raises(Broken):
        controller.handle([fact], step)
    return step


def test_afterwards_facts_take_effect_and_nothing_is_decided() -> None:
    controller, policy, _ = a_fragile_controller()
    controller.handle([f.JobSubmitted(0.0, a_job(1, gpus=8))], Step())
    fail_now(controller, policy, f.JobSubmitted(1.0, a_job(2, gpus=4)))
    step = Step()
    controller.handle([f.JobSubmitted(2.0, a_job(3)), f.JobCancelled(2.0, JobId(1))], step)
    assert step.facts == []
    assert step.commands == [StopRun(RunId(1))]
    controller.handle([f.RunExited(3.0, RunId(1), ExitCause.PREEMPTED, 0.0)], step)
    assert [job.id for job in step.ended] == [1]
    assert step.facts == []
    assert controller.reason_codes([JobId(2), JobId(3)])  # and reasons can be given
    assert controller.why(JobId(3)) is not None


def test_another_controller_goes_on_from_the_same_state() -> None:
    controller, policy, _ = a_fragile_controller()
    controller.handle([f.JobSubmitted(0.0, a_job(1, gpus=8))], Step())
    fail_now(controller, policy, f.JobSubmitted(1.0, a_job(2, gpus=4)))
    state = controller.state
    state.memory = None
    after = Controller(state, policies.make("fifo-skip"), placers.make("packed"))
    step = Step()
    after.handle([f.RunExited(2.0, RunId(1), ExitCause.FINISHED, 0.0)], step)
    assert [type(fact) for fact in step.facts] == [f.RunGranted]
    invariants.check_plan(after)


def test_the_last_fact_of_a_job_that_ends_is_not_lost_when_the_policy_cannot_learn_from_it() -> None:
    controller, policy, _ = a_fragile_controller()
    controller.handle([f.JobSubmitted(0.0, a_job(1))], Step())
    step = fail_now(controller, policy, f.RunExited(5.0, RunId(1), ExitCause.FINISHED, 0.0))
    assert [job.id for job in step.ended] == [1]


class Answers(Policy):
    """Gives an answer that cannot be used to the second job."""

    name = "answers"
    answer: Any = None

    def rank(self, job: JobState, memory: Any, at: float) -> Any:
        return (1.0,) if job.id == 1 else self.answer


@pytest.mark.parametrize("answer", [None, 3, ("a",), (None,), (1j,)])
def test_an_answer_that_is_no_rank_is_a_failure_of_the_policy(answer: Any) -> None:
    policy = Answers()
    policy.answer = answer
    controller = Controller(a_cluster(), policy, placers.make("packed"))
    controller.handle([f.JobSubmitted(0.0, a_job(1))], Step())
    with pytest.raises((TypeError, ValueError)):
        controller.handle([f.JobSubmitted(1.0, a_job(2))], Step())
    assert controller.failure is not None
    assert controller.failure.name == "answers"
    assert list(controller.state.jobs) == [1, 2]


def test_an_error_of_this_program_is_not_blamed_on_a_plug_in() -> None:
    """Time that goes back is an error of the driver: it is raised, and no plug-in is blamed."""
    controller, _, _ = a_fragile_controller()
    controller.handle([f.JobSubmitted(5.0, a_job(1))], Step())
    with pytest.raises(AssertionError):
        controller.handle([f.TimerFired(1.0)], Step())
    assert controller.failure is None
    step = Step()
    controller.handle([f.TimerFired(6.0)], step)
    assert not [each for each in step.commands if not isinstance(each, SetTimer)]
