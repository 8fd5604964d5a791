"""Why runs are revoked: what the decisions say is true of the state in which they were made."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from random import Random

import pytest

from tiresias.core import facts as f
from tiresias.core.facts import Rule
from tiresias.core.model import Cluster, JobId, Node, Phase, RunId
from tiresias.core.plugins import Policy, policies
from tiresias.core.revocations import revocations
from tiresias.core.state import State, evolve
from tiresias.live.events import event_of
from tiresias.store import StoredFact, codec
from tiresias.testing import Harness, a_trace, random_trace, story_of

TRACES = 1000
QUEUES = (120.0, 900.0)
POLICIES = (
    ("tiresias-l", {"queues": "120,900", "order": "first-start"}),
    ("tiresias-l", {"queues": "120,900", "order": "last-preempted-first"}),
    ("tiresias-l", {"queues": "120,900", "order": "running-first"}),
    ("tiresias-g", {"queues": "120,900", "learn_after": "5"}),
    ("srtf", {}),
    ("srsf", {}),
    ("las", {"quantum_s": "60"}),
    ("tiresias", {}),
)


def test_a_run_is_revoked_for_a_job_of_a_higher_queue():
    scene = Harness("tiresias-l", gpus=4, options={"queues": 1000})
    plan = scene.running("old", gpus=4, service_s=300).pending("new", gpus=4).plan()
    assert plan.preempted == ["old"]
    assert plan.reasons == [f.Revocation(Rule.DEMOTED, scene.job("new").id, 1, 2)]


def test_a_run_that_falls_to_a_lower_queue_is_revoked_for_a_job_of_the_queue_that_it_left():
    scene = Harness("tiresias-l", gpus=4, options={"queues": 1000, "order": "first-start"})
    scene.pending("first", gpus=4).plan()
    assert scene.submit("second", gpus=4).preempted == []
    plan = scene.wait(250)
    assert plan.preempted == ["first"]
    assert plan.reasons == [f.Revocation(Rule.DEMOTED, scene.job("second").id, 1, 2)]


def test_a_run_is_revoked_for_a_job_of_a_higher_priority_class():
    scene = Harness("tiresias-l", gpus=2)
    plan = scene.running("plain", gpus=2).pending("urgent", gpus=2, priority="high").plan()
    assert plan.preempted == ["plain"]
    assert plan.reasons == [f.Revocation(Rule.PRIORITY, scene.job("urgent").id, 1, 1)]


def test_policies_without_queues_name_none():
    scene = Harness("srtf", gpus=1)
    plan = scene.running("long", gpus=1, duration_s=900).pending("short", gpus=1, duration_s=10).plan()
    assert plan.preempted == ["long"]
    assert plan.reasons == [f.Revocation(Rule.OUTRANKED, scene.job("short").id)]


def test_each_run_is_revoked_for_the_job_that_needs_its_gpus():
    scene = Harness("tiresias-l", gpus=4, options={"queues": 100})
    for name in ("a", "b", "c", "d"):
        scene.running(name, gpus=1, service_s=200)
    plan = scene.pending("x", gpus=2).pending("y", gpus=2).plan()
    assert len(plan.preempted) == 4
    x, y = scene.job("x").id, scene.job("y").id
    assert [each.job_id for each in plan.reasons] == [x, x, y, y], "the job with the better rank takes first"


def test_without_a_job_ahead_the_gpus_have_become_fewer():
    scene = Harness("tiresias-l", gpus=2)
    scene.running("a", gpus=2).plan()
    entry = scene.controller.entries[scene.job("a").id]
    policy, memory = scene.controller.policy, scene.state.memory
    [found] = revocations([entry], [], 0, attrgetter("key"), policy, memory, scene.at)
    assert found == f.Revocation(Rule.CAPACITY, None, 1, 1)


@pytest.mark.parametrize("part", range(4))
def test_the_reasons_are_true_in_random_traces(part: int):
    """What is shown equals what was decided, and what was decided is so, by the definitions.

    The state at each decision is evolved anew from the facts, with a policy of its own that asks nobody.
    """
    seen = dict.fromkeys(Rule, 0)
    for seed in range(part, TRACES, 4):
        rng = Random(seed)
        rows = random_trace(rng, 14, sizes=(1, 1, 2, 3, 4), whole=seed % 2 == 0, longest_s=600)
        trace = a_trace(rows, priority=[rng.choice(["high", "normal", "normal", "low"]) for _ in rows])
        name, options = POLICIES[seed % len(POLICIES)]
        cost_s = rng.choice([0.0, 20.0])
        story = story_of(trace, "1x4", name, options=options, preemption_cost_s=cost_s)
        check(story.facts, policies.make(name, options), seen)
    assert all(seen[rule] for rule in (Rule.PRIORITY, Rule.DEMOTED, Rule.OUTRANKED)), seen
    assert not seen[Rule.CAPACITY], "no GPU went out of service"


def check(facts: list[f.Fact], policy: Policy, seen: dict[Rule, int]) -> None:
    state = State(Cluster([Node("n0", 4)]), policy.new_memory())
    policy.gpus = 4
    awaited: dict[JobId, None] = {}  # jobs for which runs were revoked, and that hold no GPUs yet
    for fact in facts:
        if isinstance(fact, f.RunRevoked):
            check_one(fact, state, policy)
            assert fact.why is not None
            seen[fact.why.rule] += 1
            assert fact.why.job_id is not None
            awaited[fact.why.job_id] = None
            kind, version, body = codec.encode_fact(fact)
            shown = event_of(StoredFact(1, 1, True, codec.decode_fact(kind, version, body)), 7).text
            assert shown.startswith(f"run 7 preempted for job {fact.why.job_id}"), shown
            assert ("higher priority class" in shown) == (fact.why.rule is Rule.PRIORITY)
            assert ("it fell from Q" in shown) == (
                fact.why.rule is not Rule.PRIORITY and fact.why.from_queue != fact.why.to_queue
            )
        if isinstance(fact, f.RunGranted):
            awaited.pop(fact.job_id, None)
        job = evolve(state, fact)
        if type(fact) in policy.learns:
            policy.learn(state.memory, fact, job)
    assert not awaited, "every job for which a run was revoked has got GPUs in the end"


def check_one(fact: f.RunRevoked, state: State, policy: Policy) -> None:
    why, at = fact.why, fact.at
    assert why is not None
    victim = state.jobs[state.runs[fact.run_id].job_id]
    gainer = state.jobs[JobId(why.job_id or 0)]
    assert gainer is not victim
    assert gainer.run is None or gainer.phase is Phase.STOPPING, "it has no GPUs, or gives back those it has"
    assert (why.rule is Rule.PRIORITY) == (gainer.priority < victim.priority)
    assert gainer.priority <= victim.priority
    if policy.name not in ("tiresias-l", "tiresias-g"):
        assert (why.from_queue, why.to_queue) == (None, None)
        assert why.rule in (Rule.PRIORITY, Rule.OUTRANKED)
        return
    run = state.runs[RunId(fact.run_id)]
    before = queue(victim.service_gpu_s)
    now = queue(victim.service_gpu_s + victim.gpus * (at - run.granted_at))
    assert (why.from_queue, why.to_queue) == (before, now)
    other = queue(gainer.service_at(at))
    if gainer.priority == victim.priority:
        assert other <= now, "nobody is preempted for a job of a lower queue"
        assert (why.rule is Rule.DEMOTED) == (before <= other < now)


def queue(service_gpu_s: float) -> int:
    return bisect_right(QUEUES, service_gpu_s + 1e-3) + 1
