"""A policy that a user wrote and registered, from the smallest to one that learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core.model import Rank
from tiresias.core.plugins import OptionError, Policy, policies
from tiresias.core.state import JobState
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace
from tiresias.testing.contracts import PolicyContract


class SmallestFirst(Policy):
    """Fewest GPUs first."""

    name = "smallest-first"

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (job.gpus,)


class UserFair(Policy):
    """The user with the fewest finished jobs first: it learns."""

    name = "user-fair"
    preempts = False
    learns = frozenset({f.RunExited})

    def new_memory(self) -> dict[str, int]:
        return {}

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (memory.get(job.job.user, 0),)

    def learn(self, memory: Any, fact: Any, job: JobState | None) -> bool:
        assert job is not None
        memory[job.job.user] = memory.get(job.job.user, 0) + 1
        return True


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Both are known by name during a test, and to no other test."""
    known = dict(policies._classes)
    policies.register(SmallestFirst)
    policies.register(UserFair)
    yield
    policies._classes.clear()
    policies._classes.update(known)


class TestSmallestFirst(PolicyContract):
    policy = "smallest-first"


class TestUserFair(PolicyContract):
    policy = "user-fair"


def test_it_is_found_by_name_and_decides() -> None:
    lab = Harness("smallest-first", gpus=4).running("big", gpus=3).pending("small", gpus=2)
    assert lab.plan().preempted == ["big"]


def test_it_can_be_simulated_by_name_or_as_an_object() -> None:
    trace = a_trace([(0.0, 4, 10.0), (1.0, 2, 10.0), (2.0, 1, 10.0)])
    by_name = simulate(trace, "1x4", "smallest-first", preemption_cost_s=0)
    as_object = simulate(trace, "1x4", SmallestFirst(), preemption_cost_s=0)
    assert by_name.jobs["finished_at"].to_list() == [21, 11, 12]
    assert by_name.jobs.equals(as_object.jobs)
    assert as_object.policy == "smallest-first"


def test_what_it_learns_changes_the_order_at_once() -> None:
    trace = a_trace([(0.0, 1, 5.0)] * 4, user=["ann", "ann", "ann", "bob"])
    result = simulate(trace, "1x1", "user-fair")
    assert result.jobs["finished_at"].to_list() == [5, 15, 20, 10]


def test_two_policies_of_one_name_are_refused() -> None:
    class Fifo2(Policy):
        """Another fifo."""

        name = "fifo"

        def rank(self, job: JobState, memory: Any, at: float) -> Rank:
            return ()

    with pytest.raises(OptionError, match="two policy classes are named 'fifo'"):
        policies.register(Fifo2)


class TwoNumbersThatDrift(Policy):
    """Ranks by class, then by remaining time; the Controller can follow the drift of one number only."""

    name = "two-numbers"
    drifts = True

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (job.gpus, -job.progress_at(at))

    def drift(self, job: JobState) -> float:
        return -1.0


class NoNumberThatDrifts(TwoNumbersThatDrift):
    name = "no-number"

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ()


@pytest.mark.parametrize(("policy", "rank"), [(TwoNumbersThatDrift, "(1, -0.0)"), (NoNumberThatDrifts, "()")])
def test_a_drifting_rank_that_is_not_one_number_is_refused(policy: type[Policy], rank: str) -> None:
    with pytest.raises(OptionError) as refusal:
        simulate(a_trace([(0.0, 1, 10.0)]), "1x4", policy())
    assert str(refusal.value) == (
        f"{policy.name} ranks job 0 {rank}, but a rank that drifts is one number; return (number,), or set"
        f" drifts = False in {policy.__name__} and say in `standing` until when a rank holds"
    )
