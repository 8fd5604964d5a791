"""What must be true of every simulation, checked on its journal: property tests over traces and policies."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Controller
from tiresias.core.model import Cluster, Job, JobId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.sim.engine import Engine
from tiresias.sim.rejections import rejections
from tiresias.sim.simulate import jobs_of, simulate
from tiresias.sim.trace import Trace
from tiresias.sim.world import World
from tiresias.testing import a_trace, random_trace, story_of
from tiresias.testing.checkers import check_story, no_job_is_preempted_back
from tiresias.testing.story import Story

CASES: dict[str, dict[str, Any]] = {
    "fifo": {},
    "fifo-skip": {},
    "sjf": {},
    "srtf": {},
    "srsf": {"min_run_s": "70"},
    "las": {"quantum_s": "30"},
    "tiresias-l": {"queues": "100,800", "order": "first-start"},
    "tiresias-l running": {"queues": "100,800", "order": "running-first"},
    "tiresias-l last": {"queues": "100,800", "order": "last-preempted-first"},
    "tiresias-l promoting": {"queues": "1000", "order": "running-first", "promote_knob": "3"},
    "tiresias-g": {"queues": "300,3000", "learn_after": "4", "order": "running-first"},
}


def busy_trace(seed: int, jobs: int = 40) -> Trace:
    """Jobs of all sizes, some too large for the cluster; priorities, costs and times of any kind."""
    rng = Random(seed)
    rows = random_trace(rng, jobs, sizes=(1, 1, 2, 3, 4, 8, 9), whole=seed % 2 == 0, longest_s=900)
    return a_trace(
        rows,
        priority=[rng.choice(["high", "normal", "normal", "low"]) for _ in rows],
        preemption_cost_s=[rng.choice([None, None, 6.0, 90.0]) for _ in rows],
    )


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=12, phases=[Phase.generate])
@given(
    seed=st.integers(0, 10**9),
    cost_s=st.sampled_from([0.0, 60.0]),
    placer=st.sampled_from(["count", "packed"]),
)
def test_any_trace(name: str, seed: int, cost_s: float, placer: str) -> None:
    """No slot held twice, no partial gang, nobody lost, service and work conserved, nobody preempted back."""
    story = story_of(
        busy_trace(seed), "2x4", name.split()[0], options=CASES[name], preemption_cost_s=cost_s, placer=placer
    )
    check_story(story, replans_without_events=name == "las" and cost_s > 0)


def test_las_may_preempt_a_job_for_one_that_ranks_behind_it_once_it_has_saved() -> None:
    """A run counts its service from quantum to quantum, and all of it once it is gone: las has no queues."""
    story = story_of(
        busy_trace(0), "2x4", "las", options=CASES["las"], preemption_cost_s=60.0, placer="packed"
    )
    with pytest.raises(AssertionError, match="without an external event"):
        no_job_is_preempted_back(story)


def test_a_promotion_without_consequences_is_decided_once() -> None:
    options = {**CASES["tiresias-l promoting"], "cost": "0"}
    story = story_of(
        busy_trace(5014), "2x4", "tiresias-l", options=options, preemption_cost_s=60.0, placer="count"
    )
    check_story(story)
    promoted = [(fact.at, fact.job_id) for fact in story.facts if isinstance(fact, f.JobPromoted)]
    assert [(round(at, 3), job) for at, job in promoted] == [
        (1389.667, 15),
        (1749.667, 6),
        (2253.667, 6),
        (2254.667, 24),
        (2429.667, 15),
        (2757.667, 6),
        (2758.667, 24),
        (3253.0, 8),
        (3763.0, 31),
    ]
    assert promoted == [(pytest.approx(starved_at(story, *each)), each[1]) for each in promoted]
    followed = {fact.at for fact in story.facts if isinstance(fact, f.RunGranted | f.RunRevoked)}
    assert any(at not in followed for at, _ in promoted), "a promotion that changes no allocation"


def starved_at(story: Story, at: float, job_id: int) -> float:
    """When the job had waited three times as long as it had executed, both since its promotion before `at`.

    A run that takes long to save delays that until its exit.
    """
    since = story.jobs()[JobId(job_id)].submitted_at
    for fact in story.facts:
        if isinstance(fact, f.JobPromoted) and fact.job_id == job_id and fact.at < at:
            since = fact.at
    own = [(grant.at, end.at) for grant, end in story.runs() if grant.job_id == job_id]
    executed = [(start, end) for start, end in own if since <= start and end <= at]
    executed_s = sum(end - start for start, end in executed)
    return max(since + (1 + 3) * executed_s, executed[-1][1])


def test_the_checkers_see_what_they_look_for() -> None:
    """Two jobs that preempt each other without an external event are found out."""
    story = story_of(a_trace([(0.0, 4, 100.0), (5.0, 4, 9.0)]), "1x4", "srtf", preemption_cost_s=0)
    no_job_is_preempted_back(story)
    place = next(nth for nth, fact in enumerate(story.facts) if isinstance(fact, f.RunExited)) + 1
    grant = next(fact for fact in story.facts[place:] if isinstance(fact, f.RunGranted))
    story.facts.insert(story.facts.index(grant) + 1, f.RunRevoked(grant.at, grant.run_id))
    with pytest.raises(AssertionError, match="without an external event"):
        no_job_is_preempted_back(story)


class Stepper:
    """An Engine that stops at every instant to have the Controller's counters checked."""

    def __init__(self, trace: Trace, cluster: Cluster, policy: str, options: dict[str, Any]):
        made = policies.make(policy, options)
        self.controller = Controller(State(cluster), made, placers.make("packed"))
        self.ended: list[int] = []
        self.instants = 0
        self.engine = Engine(
            self.controller,
            World(60.0),
            jobs_of(trace, rejections(trace, cluster).rows),
            lambda job: self.ended.append(job.id),
            on_instant=self.check,
        )

    def check(self, at: float) -> None:
        self.instants += 1
        if not self.controller.policy.drifts:
            invariants.check_plan(self.controller)
        else:
            invariants.check(self.controller.state)


@pytest.mark.parametrize("name", CASES)
def test_the_books_are_in_order_at_every_instant(name: str) -> None:
    for seed in (1, 2):
        stepper = Stepper(busy_trace(seed, 60), Cluster.of(2, 4), name.split()[0], CASES[name])
        stepper.engine.run()
        assert not stepper.controller.state.jobs
        assert len(stepper.ended) == len(set(stepper.ended))
        assert stepper.instants >= stepper.engine.events > 0


def test_what_happens_at_one_instant_is_planned_once() -> None:
    """Who leaves makes room for who comes at that instant, and is not preempted for it."""
    trace = a_trace([(0.0, 4, 10.0), (0.0, 4, 30.0), (10.0, 4, 5.0)])
    story = story_of(trace, "1x4", "srtf", preemption_cost_s=0)
    assert story.result.jobs["finished_at"].to_list() == [10, 45, 15]
    assert story.result.jobs["preemptions"].to_list() == [0, 0, 0]


def test_jobs_are_made_only_when_they_are_submitted() -> None:
    """No cost grows with the number of jobs that have not come yet."""
    trace = a_trace([(float(at), 1, 0.5) for at in range(100)])
    asked: list[float] = []

    def jobs() -> Any:
        for job in jobs_of(trace):
            asked.append(job.submitted_at)
            yield job

    controller = Controller(State(Cluster.of(1, 1)), policies.make("fifo"), placers.make("count"))
    lead: list[float] = []
    engine = Engine(
        controller, World(0.0), jobs(), lambda job: None, on_instant=lambda at: lead.append(asked[-1] - at)
    )
    engine.run()
    assert max(lead) <= 1
    assert isinstance(next(jobs_of(trace)), Job)


def test_events_are_the_instants_that_were_planned() -> None:
    result = simulate(a_trace([(0.0, 1, 10.0), (5.0, 1, 10.0), (5.0, 1, 5.0)]), "1x2", "fifo")
    # Two arrivals, then the ends at 10, 15 and 15.
    assert result.events == 4
