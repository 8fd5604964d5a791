"""The policy `tiresias`: what it learns, whom it lets run, and that it decides the same after a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster, Demand, Job, JobId
from tiresias.core.plugins import compact_json, placers, policies
from tiresias.core.state import JobState, State
from tiresias.policies import classes, hazards, load, priors, tiresias
from tiresias.policies.preemption_costs import PreemptionCosts
from tiresias.sim import simulate, traces
from tiresias.sim.engine import Engine
from tiresias.sim.simulate import jobs_of
from tiresias.sim.trace import Trace
from tiresias.sim.world import World
from tiresias.testing.builders import a_trace, random_trace


def a_mix(seed: int, jobs: int = 120) -> Trace:
    """Jobs of two tenants, of one and of several GPUs, a few of which have users and names."""
    random = Random(seed)
    return a_trace(
        random_trace(random, jobs, whole=False, longest_s=2000),
        tenant=[random.choice(("red", "blue")) for _ in range(jobs)],
        user=[random.choice(("", "ann", "bob")) for _ in range(jobs)],
        name=[random.choice(("", "train-1", "train-2", "eval")) for _ in range(jobs)],
    )


class Driven(Engine):
    """An Engine that keeps all facts. It may hide durations, and restart the Controller now and then."""

    def __init__(
        self,
        trace: Trace,
        *,
        hides: bool = False,
        restarts_every: int = 0,
        cost_s: float = 60.0,
        **options: Any,
    ):
        self.hides, self.restarts_every, self.handled = hides, restarts_every, 0
        policy = policies.make("tiresias", options)
        controller = Controller(State(Cluster.of(2, 4)), policy, placers.make("packed"))
        policy.expect(controller.state.memory, cost_s)
        self.facts: list[f.Fact] = []
        super().__init__(
            controller, World(cost_s), jobs_of(trace), lambda job: None, journal=self.facts.append
        )
        self.run()

    def _arrivals(self, at: float, facts: list[f.Fact]) -> None:
        super()._arrivals(at, facts)
        for fact in facts:
            if self.hides and isinstance(fact, f.JobSubmitted):
                fact.job = replace(fact.job, duration_s=float("nan"))

    def _handle(self, facts: list[f.Fact], at: float) -> None:
        self.handled += 1
        memory, by = self.controller.state.memory, self.controller.policy
        assert by.saved_text(memory) == compact_json(by.save(memory)), "a text that was kept is stale"
        if self.restarts_every and self.handled % self.restarts_every == 0:
            state, policy = self.controller.state, self.controller.policy
            before = state.memory
            state.memory = policy.restore(json.loads(policy.saved_text(before)))
            self.controller = Controller(state, policy, self.controller.placer)
            assert state.memory.load.waiting == before.load.waiting
            assert state.memory.classes.open == before.classes.open
        super()._handle(facts, at)

    @property
    def decisions(self) -> list[f.Fact]:
        return [fact for fact in self.facts if isinstance(fact, f.RunGranted | f.RunRevoked | f.JobPromoted)]


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few jobs go over to new tables at once, so that restarts fall in the middle of that."""
    monkeypatch.setattr(tiresias, "SLICE", 3)
    monkeypatch.setattr(tiresias, "MOST_AT_ONCE", 3)


@pytest.mark.parametrize("seed", range(4))
def test_no_duration_is_looked_at_before_the_job_has_ended(seed: int) -> None:
    trace = a_mix(seed)
    known, hidden = Driven(trace, max_slowdown="6"), Driven(trace, hides=True, max_slowdown="6")
    assert any(isinstance(fact, f.RunRevoked) for fact in known.decisions)
    assert hidden.decisions == known.decisions


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("every", [1, 2, 7, 40])
@pytest.mark.parametrize("options", [{}, {"max_slowdown": "5"}, {"min_run_s": "100"}])
def test_after_a_restart_in_the_middle_it_decides_the_same(every: int, options: dict[str, str]) -> None:
    trace = a_mix(8)
    assert Driven(trace, restarts_every=every, **options).decisions == Driven(trace, **options).decisions


@pytest.mark.usefixtures("small_slices")
def test_not_all_jobs_go_over_to_new_tables_at_once() -> None:
    """With each fact at most SLICE jobs are ranked anew; in the end all of them have been."""
    policy = policies.make("tiresias")
    memory = policy.new_memory()
    memory.last_id = 9
    policy._publish(memory, 0.0)
    seen, at = [], 0.0
    while memory.cursor != tiresias.NOBODY:
        at += 1.0
        ids = policy._go_over(memory, at)
        assert len(ids) <= 3
        seen += ids
    assert sorted(seen) == list(range(10))
    assert memory.before is memory.now


@pytest.mark.usefixtures("small_slices")
def test_many_runs_that_exit_together_bring_no_slice_each() -> None:
    """The active jobs that go over at one instant are bounded; the next slice follows at the next one."""
    policy = policies.make("tiresias")
    memory = policy.new_memory()
    memory.last_id = JobId(99)
    memory.load.waiting = {JobId(id) for id in range(100) if id % 3}
    policy._publish(memory, 5.0)
    at_once = [policy._go_over(memory, 5.0) for _ in range(40)]
    assert [len(ids) for ids in at_once] == [3, 3, *[0] * 38], "two of each three jobs are active"
    memory = policy.restore(json.loads(policy.saved_text(memory)))
    assert not policy._go_over(memory, 5.0), "a restart brings no further slice"
    assert policy._go_over(memory, 6.0) == range(91, 94)


def one_gpu(jobs: list[tuple[float, float, str]]) -> Trace:
    """Jobs of one GPU: (submission, duration, tenant)."""
    rows = [(at, 1, duration) for at, duration, _ in jobs]
    return a_trace(rows, tenant=[tenant for *_, tenant in jobs])


def first_starts(driven: Driven) -> list[int]:
    """The jobs in the order in which they first got GPUs."""
    return list(dict.fromkeys(fact.job_id for fact in driven.facts if isinstance(fact, f.RunGranted)))


def test_the_tenant_whose_jobs_end_soon_goes_first() -> None:
    """Eight GPUs are busy when a job of each tenant comes: the tenant with short jobs is preferred."""
    history = [(100.0 * n, 40.0 if n % 2 else 5000.0, "short" if n % 2 else "long") for n in range(60)]
    late = [(60_000.0, 50_000.0, "long")] * 8 + [(60_010.0, 3000.0, "long"), (60_011.0, 40.0, "short")]
    starts = first_starts(Driven(one_gpu(history + late)))
    assert starts.index(69) < starts.index(68)


def test_a_job_of_two_gpus_goes_behind_one_of_one_gpu() -> None:
    rows = [(0.0, 8, 100.0), *((1.0, gpus, 500.0) for gpus in (8, 4, 2, 1))]
    assert first_starts(Driven(a_trace(rows))) == [0, 4, 3, 2, 1]


def published(cost_s: float) -> tuple[Any, Any]:
    policy = policies.make("tiresias")
    memory = policy.new_memory()
    policy.expect(memory, cost_s)
    return policy, memory


def test_what_waits_must_offer_more_the_dearer_a_preemption_is() -> None:
    job = JobState(Job(JobId(1), Demand(1), 0.0))
    ranks = [policy.rank(job, memory, 0.0) for policy, memory in map(published, (0.0, 60.0, 600.0))]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 3


def test_the_cost_of_a_preemption_is_measured() -> None:
    """The driver expects 60 s, but saving takes 50 s and loading 250 s."""
    trace = a_mix(3)
    policy = policies.make("tiresias")
    controller = Controller(State(Cluster.of(2, 4)), policy, placers.make("packed"))
    memory = controller.state.memory
    policy.expect(memory, 60.0)
    Engine(controller, World(300.0), jobs_of(trace), lambda job: None).run()
    save_s, load_s = memory.costs.cost()
    assert save_s == pytest.approx(50.0)
    assert load_s == pytest.approx(250.0)
    assert sum(memory.now.costs[""]) == pytest.approx(300.0)


def test_without_a_setting_and_before_any_preemption_first_starts_are_the_measure() -> None:
    costs = policies.make("tiresias").new_memory().costs
    assert costs.cost() == (0.0, 0.0)
    costs.loaded("vgg", 20.0, is_first=True)
    assert costs.cost("resnet") == (0.0, 20.0)
    costs.loaded("vgg", 30.0, is_first=False)
    costs.saved("vgg", 5.0)
    assert costs.cost("vgg") == (5.0, 30.0)


def test_new_memory_has_seen_nothing() -> None:
    """What it starts from is the prior alone, which is a formula: nothing of any trace is shipped with it."""
    memory = policies.make("tiresias").new_memory()
    assert memory.now.rates == {}
    assert [(key, counts.sparse()) for key, counts in memory.classes.counts.items()] == [(("all",), [])]


def test_the_number_of_classes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "MOST_CLASSES", 10)
    seen = classes.Classes()
    for number in range(100):
        keys = classes.chain("team", f"user{chr(97 + number % 26)}{chr(97 + number // 26)}", "run", 0)
        seen.add(keys, 0.0, 100.0, has_ended=True)
    assert len(seen.counts) <= 11
    assert all(seen.rates(0.0).values())


def test_names_that_differ_in_digits_are_one_class() -> None:
    assert classes.chain("t", "ann", "train-17", 0) == classes.chain("t", "ann", "train-18", 0)
    assert classes.chain("t", "ann", "eval", 0)[-1] != classes.chain("t", "ann", "train-17", 0)[-1]


def test_a_starving_job_is_promoted_within_the_budget() -> None:
    rows = [(0.0, 2, 30_000.0), *((40.0 * n, 1, 330.0) for n in range(1, 800))]
    trace = a_trace(rows)
    promoted = [
        [fact.job_id for fact in driven.facts if isinstance(fact, f.JobPromoted)]
        for driven in (
            Driven(trace),
            Driven(trace, max_slowdown="2"),
            Driven(trace, max_slowdown="2", budget="0.2"),
        )
    ]
    assert promoted[0] == []
    assert 0 in promoted[1]
    assert 0 not in promoted[2]


def ended_every(gap_s: float, ends: int = 40) -> load.Load:
    """A load in which a job has ended in each interval of `gap_s`, until the instant gap_s * ends."""
    seen = load.Load()
    for number in range(1, ends + 1):
        seen.end(gap_s * number)
    return seen


def costing(cost_s: float) -> PreemptionCosts:
    costs = PreemptionCosts()
    costs.expected_s = cost_s
    return costs


def waiting(count: int) -> set[JobId]:
    return {JobId(id) for id in range(count)}


def test_the_wait_that_a_preemption_can_save_is_that_until_enough_jobs_have_ended() -> None:
    seen = ended_every(10.0)
    seen.waiting = waiting(6)
    assert seen.wait_s(400.0) == pytest.approx(60.0)
    assert seen.wait_s(410.0) > 60.0  # an end is overdue


def test_before_any_job_has_ended_nothing_is_known_about_the_wait() -> None:
    seen = load.Load()
    seen.waiting = waiting(3)
    assert seen.changed(costing(60.0), 100.0) == []
    assert seen.reluctance == 0.0


def test_the_shorter_the_wait_and_the_dearer_a_preemption_the_greater_the_reluctance() -> None:
    found = []
    for count, cost_s in ((400, 60.0), (40, 60.0), (40, 300.0), (1, 300.0)):
        seen = ended_every(100.0)
        seen.waiting = waiting(count)
        seen.changed(costing(cost_s), 4000.0)
        found.append(seen.reluctance)
    assert found == [0.0, 0.0, pytest.approx(0.6), load.MOST]


def test_all_waiting_jobs_are_ranked_anew_when_the_reluctance_changes_and_never_more_than_many() -> None:
    seen = ended_every(10.0)
    seen.waiting = waiting(5)
    assert seen.changed(costing(60.0), 400.0) == sorted(waiting(5))
    assert seen.changed(costing(60.0), 400.0) == []
    seen.waiting = waiting(load.MANY)
    assert len(seen.changed(costing(60.0), 400.0)) == load.MANY
    assert seen.reluctance == 0.0


@pytest.mark.parametrize("cost_s", [60.0, 300.0])
def test_where_preemption_brings_little_it_is_not_behind_fifo_skip(cost_s: float) -> None:
    """The trace of the testbed with the lightest load of the seeds 1 to 5."""
    trace = traces.generate("builtin:testbed-480", seed=4)
    found = {
        policy: simulate(trace, "15x4", policy, placer="packed", preemption_cost_s=cost_s)
        for policy in ("tiresias", "fifo-skip")
    }
    assert found["tiresias"].summary()["avg_jct_s"] < found["fifo-skip"].summary()["avg_jct_s"]


def faster(trace: Trace, times: float) -> Trace:
    """The same jobs in a world in which everything takes so many times less long."""
    return replace(
        trace,
        jobs=trace.jobs.with_columns(
            submitted_at=pl.col("submitted_at") / times, duration_s=pl.col("duration_s") / times
        ),
    )


def test_jobs_of_seconds_are_scheduled_as_well_as_jobs_of_hours() -> None:
    """With trainings of seconds and preemptions of milliseconds it preempts, and gains as much by it."""
    trace = traces.generate("builtin:testbed-480", seed=1)
    slow, fast = (
        simulate(faster(trace, times), "15x4", "tiresias", placer="packed", preemption_cost_s=60.0 / times)
        for times in (1.0, 1000.0)
    )
    assert fast.summary()["avg_jct_s"] * 1000 == pytest.approx(slow.summary()["avg_jct_s"], rel=0.1)
    assert fast.summary()["preemptions"] == pytest.approx(slow.summary()["preemptions"], rel=0.3)


def test_after_a_restart_in_the_middle_it_decides_the_same_in_a_world_of_seconds() -> None:
    trace = faster(a_mix(8), 1000.0)
    whole, parts = (Driven(trace, cost_s=0.06, restarts_every=every) for every in (0, 3))
    assert whole.controller.state.memory.classes.finer > 0
    assert parts.decisions == whole.decisions
    assert any(isinstance(fact, f.RunRevoked) for fact in whole.decisions)


def test_typical_jobs_keep_the_first_step_long_though_preemptions_cost_nothing() -> None:
    """What a run wastes before it reports is not measured: jobs of hours are not ranked by their seconds."""
    seen = classes.Classes()
    for _ in range(30):
        seen.add(classes.chain("", "", "", 0), 0.0, 3600.0, has_ended=True)
    seen.fit_steps(0.01)
    assert seen.finer == 0
    for _ in range(1000):
        seen.add(classes.chain("", "", "", 0), 0.0, 2.0, has_ended=True)
    seen.fit_steps(0.01)
    assert seen.edges[1] < 1.0


def test_memories_of_the_first_version_are_understood() -> None:
    policy = policies.make("tiresias")
    memory = Driven(a_mix(3)).controller.state.memory
    saved = json.loads(policy.saved_text(memory))
    del saved["classes"]["finer"], saved["classes"]["typical"]
    restored = policy.restore(saved)
    assert restored.classes.rates(0.0) == memory.classes.rates(0.0)


def test_ranking_a_job_anew_does_not_put_off_the_next_try_to_promote_it() -> None:
    policy = policies.make("tiresias", {"max_slowdown": "2"})
    memory = policy.new_memory()
    job = JobState(Job(JobId(1), Demand(1), 0.0))
    ranked_at = (0.0, 1079.0, 1080.0, 1300.0, 1379.0, 1381.0)
    tries = [policy.standing(job, memory, at, False)[1] for at in ranked_at]
    assert tries == [1080.0, 1080.0, 1380.0, 1380.0, 1380.0, 1680.0]


def test_jobs_of_a_policy_before_are_known_when_it_begins() -> None:
    """Another policy has ranked the jobs so far: the new memory knows their runs, and which ones wait."""
    engine = Driven(a_trace([(0.0, 8, 100.0)]))
    state, policy = engine.controller.state, policies.make("tiresias")
    for id, gpus in ((7, 8), (9, 4)):
        engine.controller.handle([f.JobSubmitted(state.at, Job(JobId(id), Demand(gpus), state.at))], Step())
    (run,) = state.runs.values()
    engine.controller.handle([f.RunStarted(state.at, run.id, 1.0)], Step())
    state.memory = None
    controller = Controller(state, policy, engine.controller.placer)
    memory = controller.state.memory
    assert memory.last_id == 9
    assert set(memory.classes.open) == {7}
    assert memory.load.waiting == {9}


def a_prior(jobs: int = 200) -> str:
    """What was seen of two tenants elsewhere: jobs of one end soon, those of the other do not."""
    return priors.made(
        (tenant, "", "", 1, worked_s)
        for _ in range(jobs)
        for tenant, worked_s in (("short", 40.0), ("long", 50_000.0))
    )


def test_with_a_prior_the_first_jobs_are_ranked_by_what_was_seen_elsewhere() -> None:
    short, long = (JobState(Job(JobId(1), Demand(1), 0.0, tenant=tenant)) for tenant in ("short", "long"))
    knowing, without = policies.make("tiresias", {"prior": a_prior()}), policies.make("tiresias")
    memory, empty = knowing.new_memory(), without.new_memory()
    assert knowing.rank(short, memory, 0.0) < knowing.rank(long, memory, 0.0)
    assert without.rank(short, empty, 0.0) == without.rank(long, empty, 0.0)


def test_a_prior_counts_for_a_bounded_number_of_jobs() -> None:
    found, problem = priors.read(a_prior(5000))
    assert not problem
    assert found is not None
    assert max(sum(counts.ends) for counts in found.counts.values()) == pytest.approx(priors.WORTH)
    assert found.ended == 0, "nothing has ended here"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prior.json", "give a file as prior=@FILE"),
        ('{"format": "tiresias prior", ', "it is not JSON (line 1"),
        ("[1, 2]", 'it has no "format"'),
        ('{"format": "tiresias prior", "version": 2, "classes": []}', "it is of version 2"),
        ('{"format": "tiresias prior", "version": 1}', 'no list "classes"'),
        (
            '{"format": "tiresias prior", "version": 1, "classes": [[["all"], 1, [[3, 1, -5.0]]]]}',
            "class 1 of 1: step 3 has negative work",
        ),
        (
            '{"format": "tiresias prior", "version": 1, "classes": [[["all"], 1, [[3, NaN, 5.0]]]]}',
            "no number",
        ),
        ('{"format": "tiresias prior", "version": 1, "classes": [[["tribe", "a"], 1, []]]}', "is no class"),
    ],
)
def test_a_prior_that_cannot_be_used_is_named_and_the_policy_starts_without(text: str, says: str) -> None:
    policy = policies.make("tiresias", {"prior": text})
    assert says in policy.problem
    assert "the prior is not used" in policy.problem
    assert policy.new_memory().now.rates == {}
    result = simulate(a_mix(1), "2x4", "tiresias", options={"prior": text})
    assert any(says in note for note in result.notes)


def test_no_prior_is_shipped_but_the_formula() -> None:
    """The hazard is ALPHA divided by the work done, whatever trace: nothing is fitted to one."""
    assert policies.make("tiresias").options.prior == ""
    middle = [hazards.EDGES[step] * 2**0.5 for step in range(1, 12)]
    assert hazards.PRIOR[1:12] == pytest.approx([hazards.ALPHA / work_s for work_s in middle])


def counted(ends: list[float], expected: float) -> hazards.Variation:
    """Classes of which so many ended in one step in which `expected` would at the parent's hazard."""
    found = hazards.Variation(usual_lean=1.0)
    for each in ends:
        counts = hazards.Counts()
        counts.ends[5], counts.seconds[5] = each, expected / hazards.PRIOR[5]
        found.see(counts, None, hazards.PRIOR)
    return found


def test_classes_that_differ_by_chance_only_lean_on_all_jobs_and_others_on_themselves() -> None:
    alike = counted([8, 10, 12, 9, 11] * 10, 10.0)
    different = counted([0, 40, 1, 0, 9] * 10, 10.0)
    assert alike.lean == hazards.MOST_LEAN
    assert different.lean < 1.0


def test_a_promoted_job_that_has_caught_up_has_its_ordinary_rank_again() -> None:
    policy = policies.make("tiresias", {"max_slowdown": "4"})
    job = JobState(Job(JobId(1), Demand(1), 0.0))
    # Promoted at 2,160 s, it has caught up when its JCT is twice what it has executed: after 2,160 s more.
    assert policy._starves_at(job, 0.0) == pytest.approx(2160.0)
    assert policy._caught_up_at(job, 2160.0) == pytest.approx(4320.0)


def test_it_says_in_words_what_was_learned_of_a_jobs_class() -> None:
    history = [(100.0 * n, 40.0 if n % 2 else 5000.0, "short" if n % 2 else "long") for n in range(60)]
    engine = Driven(one_gpu(history))
    policy, memory = engine.controller.policy, engine.controller.state.memory
    said = {
        tenant: policy.explain(JobState(Job(JobId(99), Demand(1), 0.0, tenant=tenant)), memory, 0.0)
        for tenant in ("short", "long")
    }
    assert said["short"].startswith("30 jobs of tenant short with 1 GPU have ended: half end within ")
    assert "ranked ahead of the average job" in said["short"]
    assert "ranked behind the average job" in said["long"]
    assert any("Of jobs of tenant short with 1 GPU, 30 have ended" in line for line in policy.learned(memory))
    fresh = policies.make("tiresias")
    assert "too few jobs have ended" in fresh.explain(
        JobState(Job(JobId(1), Demand(1), 0.0)), fresh.new_memory(), 0.0
    )
