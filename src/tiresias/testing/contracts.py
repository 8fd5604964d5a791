"""Tests that every policy, allocator and placer must pass, as classes to inherit from.

    class TestMine(PolicyContract):
        policy = "mine"
        options = {"quantum_s": "5"}

The tests use only `assert`: any runner that finds methods `test_…` in classes `Test…` can run them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from random import Random
from typing import Any

import polars as pl

from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Job, JobId, Node, Phase, RunId
from tiresias.core.plugins import Allocator, OptionError, Placer, Policy, compact_json, placers, policies
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import JobState, State
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace
from tiresias.store import memories
from tiresias.testing.builders import a_trace, random_trace
from tiresias.testing.checkers import check_story
from tiresias.testing.fuzz import EVERYTHING, QUIET, SIZES, RandomDriver, check_consistent, check_rebuilt
from tiresias.testing.story import story_of

NONSENSE = "@?!"
AT = 1e7


def option_error(action: Callable[[], object]) -> str | None:
    """The message of the OptionError that the action raises; None if it raises none."""
    try:
        action()
    except OptionError as error:
        return str(error)
    return None


class PolicyContract:
    """The contract of policies. A subclass names a registered `policy` and, if need be, its `options`."""

    policy: str
    options: Mapping[str, Any] = {}

    def make(self, **more: Any) -> Policy:
        made: Policy = policies.make(self.policy, {**self.options, **more})
        return made

    def trace(self, seed: int) -> Trace:
        rows = random_trace(Random(seed), 40, whole=seed % 2 == 0, longest_s=900)
        return a_trace(rows, priority=[("normal", "normal", "high", "low")[nth % 4] for nth in range(40)])

    def driven(self, seed: int) -> RandomDriver:
        controller = Controller(State(Cluster.of(3, 4)), self.make(), placers.make("packed"))
        return RandomDriver(controller, Random(seed), kinds=QUIET)

    def test_it_says_what_it_is(self) -> None:
        assert (self.make().__doc__ or "").strip(), "a sentence for the listing"
        for each in fields(self.make().options):
            assert each.metadata.get("help"), ("an option without help", each.name)

    def test_every_job_of_a_trace_finishes_and_no_slot_is_held_twice(self) -> None:
        for seed in range(4):
            for cost_s in (0.0, 60.0):
                trace = self.trace(seed)
                story = story_of(trace, "2x4", self.policy, options=self.options, preemption_cost_s=cost_s)
                check_story(story)

    def test_the_same_trace_gives_the_same_result(self) -> None:
        first, second = (story_of(self.trace(5), "2x4", self.policy, options=self.options) for _ in range(2))
        assert first.facts == second.facts
        assert first.result.jobs.equals(second.result.jobs)

    def test_the_plan_is_exact_whatever_happens(self) -> None:
        """Ranks are comparable, gangs are whole, and a new Controller for the same State decides the same."""
        for seed in range(4):
            driven = self.driven(seed)
            for _ in range(60):
                driven.happen()
                check_consistent(driven)
            check_rebuilt(driven)

    def test_a_rank_is_never_valid_until_an_instant_in_the_past(self) -> None:
        driven = self.driven(7)
        state, policy = driven.state, driven.controller.policy
        for _ in range(80):
            driven.happen()
            for job in state.jobs.values():
                for is_due in (True, False):
                    rank, until = policy.standing(job, state.memory, state.at, is_due)
                    assert until >= state.at, (job.id, until, state.at)
                assert rank == policy.rank(job, state.memory, state.at)

    def test_there_is_a_reason_for_every_job_that_waits(self) -> None:
        driven = self.driven(11)
        for _ in range(80):
            driven.happen()
            for job in driven.state.jobs.values():
                reason = driven.controller.why(job.id)
                assert reason is not None
                assert reason.code
                assert reason.text
                assert (reason.code == ReasonCode.RUNNING) is (job.phase is Phase.RUNNING)
                assert (reason.code == ReasonCode.STARTING) is (job.phase is Phase.STARTING)

    def test_it_runs_without_knowing_durations_or_says_that_it_cannot(self) -> None:
        driven = self.driven(3)
        make_job = driven._job

        def without_duration(number: int) -> Any:
            job = make_job(number)
            job.duration_s = None
            return job

        driven._job = without_duration  # type: ignore[method-assign]
        message = option_error(driven.happen_often)
        assert message is None or (self.policy in message and "duration" in message), message

    def test_a_run_is_not_stopped_before_its_shortest_time(self) -> None:
        if "min_run_s" not in {each.name for each in fields(self.make().options)}:
            return
        options = {**self.options, "min_run_s": "100"}
        story = story_of(self.trace(2), "2x4", self.policy, options=options)
        grants = story.grants()
        for fact in story.facts:
            if isinstance(fact, f.RunRevoked):
                assert fact.at - grants[fact.run_id].at >= 100 - 1e-6, fact

    def test_what_it_has_learned_can_be_saved_and_restored(self) -> None:
        driven = self.driven(13)
        for _ in range(80):
            driven.happen()
        state, policy = driven.state, driven.controller.policy
        text = policy.saved_text(state.memory)
        assert text == compact_json(policy.save(state.memory)), "saved_text is not what save gives"
        restored = policy.restore(json.loads(text))
        for job in state.jobs.values():
            for is_due in (True, False):
                before = policy.standing(job, state.memory, state.at, is_due)
                assert policy.standing(job, restored, state.at, is_due) == before, job.id

    def test_options_that_are_not_understood_are_named(self) -> None:
        message = option_error(lambda: self.make(no_such_option="1"))
        assert message is not None, "an unknown option was accepted"
        assert "no_such_option" in message
        assert self.policy in message
        for each in fields(self.make().options):
            message = option_error(lambda name=each.name: self.make(**{name: NONSENSE}))  # type: ignore[misc]
            if message is None:
                assert isinstance(each.default, str), ("nonsense was accepted", each.name)
            else:
                assert each.name in message, message
                assert NONSENSE in message, message


class AllocatorContract(PolicyContract):
    """The contract of allocators: that of policies, and what follows from the wish being a fact.

    An allocator that does not promise that jobs within the share of their tenant end soon says so with
    `keeps_shares = False`, and tests its own promise against starvation itself.
    """

    keeps_shares = True

    def trace(self, seed: int) -> Trace:
        rows = random_trace(Random(seed), 40, whole=seed % 2 == 0, longest_s=900)
        sizes = [gpus for _, gpus, _ in rows]
        return a_trace(
            rows,
            tenant=[("a", "b", "b", "c")[nth % 4] for nth in range(40)],
            min_gpus=[1 if nth % 3 == 0 else None for nth in range(40)],  # these are elastic, and the next
            max_gpus=[gpus + 2 if nth % 6 < 2 else None for nth, gpus in enumerate(sizes)],
        )

    def restarted(self, controller: Controller) -> Controller:
        """A Controller for what a manager knows after a restart, with an allocator that remembers nothing."""
        text = memories.dump(controller.policy, controller.state)
        state = copy.deepcopy(controller.state)
        policy = self.make()
        memories.read(policy, text).restore(state)
        return Controller(state, policy, placers.make("packed"))

    def test_it_is_an_allocator(self) -> None:
        assert isinstance(self.make(), Allocator)

    def test_no_wish_of_it_is_refused(self) -> None:
        for seed in range(4):
            driven = RandomDriver(self.driven(seed).controller, Random(seed), kinds=EVERYTHING | SIZES)
            for _ in range(60):
                driven.happen()
                check_consistent(driven)
                assert not driven.controller.allotting.refused_wish, driven.controller.allotting.refused_wish

    def test_a_job_within_its_share_ends_while_another_tenant_floods_the_cluster(self) -> None:
        """The promise against starvation: twice as much work as the cluster can do arrives for four hours."""
        if not self.keeps_shares:
            return
        flood = [(nth * 300 / 16, 1, 300.0) for nth in range(16 * 48)]
        rows = sorted([*flood, (600.0, 1, 900.0), (601.0, 4, 900.0)])
        trace = a_trace(rows, tenant=["b" if row[2] == 300 else "a" for row in rows])
        result = simulate(trace, "2x4", self.policy, options=self.options, shares={"a": 1, "b": 1})
        ended = result.jobs.filter(pl.col("tenant") == "a")["finished_at"].to_list()
        assert len(ended) == 2
        assert max(ended) < 4 * 3600, ("it waited for the end of the flood", ended)

    def test_it_decides_the_same_after_a_restart_in_the_middle(self) -> None:
        for seed in range(4):
            driven = RandomDriver(self.driven(seed).controller, Random(seed), kinds=EVERYTHING | SIZES)
            for nth in range(60):
                twin = self.restarted(driven.controller)
                driven.happen()
                given = driven.given
                step = Step()
                twin.handle(given, step)
                ours, theirs = driven.state, twin.state
                assert ours.wish == theirs.wish, ("another wish after a restart", seed, nth)
                runs = [{id: run.allocation for id, run in each.runs.items()} for each in (ours, theirs)]
                assert runs[0] == runs[1], ("other runs after a restart", seed, nth)

    def test_what_it_has_learned_can_be_saved_and_restored(self) -> None:
        driven = self.driven(13)
        for _ in range(80):
            driven.happen()
        text = memories.dump(driven.controller.policy, driven.state)
        policy, state = self.make(), copy.deepcopy(driven.state)
        memories.read(policy, text).restore(state)
        assert memories.dump(policy, state) == text


class PlacerContract:
    """The contract of placers. A subclass names a registered `placer` and, if need be, its `options`.

    Only a placer whose `waits` is true may refuse slots that would fit.
    """

    placer: str
    options: Mapping[str, Any] = {}

    def make(self) -> Placer:
        made: Placer = placers.make(self.placer, self.options)
        return made

    def ledger(self, rng: Random) -> Ledger:
        """A cluster in use, with nodes of several sizes, GPU types and speeds, some out of service."""
        cpus = [Node(f"c{i}", 0, rack="c", cpus=64) for i in range(rng.randrange(2))]
        ledger = Ledger(Cluster([*cpus, *(self._node(rng, i) for i in range(rng.randrange(1, 8)))]))
        for node, spec in enumerate(ledger.nodes):
            taken = rng.randrange(1 << spec.gpus) & rng.randrange(1 << spec.gpus)
            if taken:
                ledger.take(RunId(node + 1), ((node, taken),))
            if rng.random() < 0.15:
                ledger.withdraw(spec.name)
            elif spec.gpus and rng.random() < 0.15:
                ledger.withdraw_slot(spec.name, rng.randrange(spec.gpus))
        return ledger

    def _node(self, rng: Random, number: int) -> Node:
        gpus = rng.choice((1, 2, 3, 4, 8))
        halves = (tuple(range(gpus // 2)), tuple(range(gpus // 2, gpus)))
        return Node(
            f"n{number}",
            gpus,
            rack=rng.choice("ab"),
            gpu_type=rng.choice(("", "A100", "V100")),
            cpus=rng.choice((0, 8 * gpus, 16 * gpus)),
            sockets=halves if gpus > 1 and rng.random() < 0.5 else (),
            speed=rng.choice((1.0, 1.0, 2.5)),
        )

    def job(self, gpus: int, rng: Random, **demand: Any) -> JobState:
        """A gang of a model that suffers when spread, or does not."""
        model = rng.choice(("vgg16", "resnet50", ""))
        job = JobState(Job(JobId(rng.randrange(99)), Demand(gpus, **demand), 0.0, model=model))
        job.executed_s = rng.choice((0.0, 5000.0))
        return job

    def since(self, rng: Random) -> float:
        """Since when a gang may have been refused; AT: it has not been."""
        return rng.choice((AT, AT, AT - 200.0, AT - 1e6))

    def test_a_gang_gets_exactly_what_it_asks_for_of_what_is_free(self) -> None:
        rng = Random(1)
        for _ in range(300):
            ledger = self.ledger(rng)
            job = self.job(rng.randrange(1, max(ledger.gpus, 1) + 2), rng)
            since = self.since(rng)
            self._check(job, ledger, since, self.make().place(job, ledger, AT, since))

    def test_a_gang_with_further_demands_gets_slots_that_meet_them(self) -> None:
        rng = Random(4)
        for _ in range(300):
            ledger = self.ledger(rng)
            gpus = rng.randrange(1, max(ledger.gpus, 1) + 1)
            wish = rng.choice(({"gpu_type": "A100"}, {"cpus": 12 * gpus}, {"gpu_type": "V100", "cpus": gpus}))
            job = self.job(gpus, rng, **wish)
            holes, since = ledger.open_to(job.job.demand), self.since(rng)
            allocation = self.make().place(job, holes, AT, since)
            self._check(job, holes, since, allocation)
            for node, _ in allocation or ():
                assert ledger.nodes[node].suits(job.job.demand), (ledger.nodes[node], job.job.demand)
            assert job.gpus <= holes.free or allocation is None

    def gang_of_nodes(self, ledger: Ledger, rng: Random) -> JobState:
        """A gang that has stated on how many nodes it must be."""
        nodes = rng.randrange(1, 5)
        return self.job(rng.randrange(nodes, 6 * nodes + 1), rng, nodes=nodes)

    def test_a_gang_that_asks_for_nodes_gets_its_share_on_each_of_so_many(self) -> None:
        rng = Random(7)
        placed = refused = 0
        for _ in range(400):
            ledger = self.ledger(rng)
            job, since = self.gang_of_nodes(ledger, rng), self.since(rng)
            holes = ledger.open_to(job.job.demand)
            allocation = self.make().place(job, holes, AT, since)
            self._check(job, holes, since, allocation)
            if allocation is None:
                refused += not holes.hold(job.gpus)
            else:
                holes.check_pieces(allocation)
                placed += 1
        assert placed > 50 < refused, ("a test of nothing", placed, refused)

    def test_a_gang_that_asks_for_nodes_claims_slots_on_nodes_that_can_hold_it(self) -> None:
        rng = Random(8)
        for _ in range(300):
            ledger = self.ledger(rng)
            job = self.gang_of_nodes(ledger, rng)
            holes = ledger.open_to(job.job.demand)
            claim = self.make().claim(job, holes, AT, self.since(rng))
            counts = sorted([slots.bit_count() for _, slots in claim], reverse=True)
            assert len({node for node, _ in claim}) == len(counts) <= len(holes.pieces), claim
            assert all(have <= want for have, want in zip(counts, holes.pieces, strict=False)), claim
            assert all(slots & holes.free_slots[node] == slots != 0 for node, slots in claim), claim

    def test_no_gang_that_asks_for_nodes_is_refused_in_an_empty_cluster(self) -> None:
        rng = Random(9)
        for _ in range(300):
            ledger = self.ledger(rng)
            for run_id in list(ledger.allocations):
                ledger.release(run_id)
            job = self.gang_of_nodes(ledger, rng)
            holes = ledger.open_to(job.job.demand)
            fits = holes.could_hold(job.gpus)
            assert fits == ledger.can_serve(job.job.demand), job.job.demand
            assert (self.make().place(job, holes, AT, AT) is not None) == fits, (
                job.job.demand,
                holes.offered,
            )

    def _check(self, job: JobState, holes: Holes, since: float, allocation: Allocation | None) -> None:
        placer = self.make()
        if allocation is None:
            if job.gpus <= holes.free:
                assert placer.waits or not holes.hold(job.gpus), ("refused what fits", job.gpus, holes.free)
                text = placer.refusal(job, holes, AT, since)
                assert str(holes.free) in text, ("a refusal names its rule", text)
                assert f"needs {job.gpus}" in text, text
                again_at = placer.retry_at(job, holes, AT, since)
                assert again_at > AT, ("refused at an instant that was to be better", again_at)
            return
        assert sum(slots.bit_count() for _, slots in allocation) == job.gpus
        assert len({node for node, _ in allocation}) == len(allocation)
        for node, slots in allocation:
            assert slots & holes.free_slots[node] == slots != 0, ("slots that are not free", node, slots)

    def test_what_does_not_fit_is_refused(self) -> None:
        rng = Random(2)
        for _ in range(50):
            ledger = self.ledger(rng)
            assert self.make().place(self.job(ledger.free + 1, rng), ledger, AT, self.since(rng)) is None

    def test_it_changes_neither_the_ledger_nor_the_job(self) -> None:
        rng = Random(3)
        for _ in range(50):
            ledger = self.ledger(rng)
            ledger.free_by_rack()  # is worked out at the first call
            before = copy.deepcopy({key: value for key, value in vars(ledger).items() if key != "memo"})
            job = self.job(max(1, ledger.free), rng)
            known = {name: getattr(job, name) for name in JobState.__slots__}
            placer, since = self.make(), self.since(rng)
            placer.place(job, ledger, AT, since)
            placer.claim(job, ledger, AT, since)
            placer.verdict(job)
            assert {key: vars(ledger)[key] for key in before} == before
            assert {name: getattr(job, name) for name in JobState.__slots__} == known

    def test_the_same_ledger_gives_the_same_slots(self) -> None:
        for seed in range(50):
            first, second = (Random(seed), Random(seed))
            one, two = self.ledger(first), self.ledger(second)
            gpus = max(1, one.free // 2)
            job, twin = self.job(gpus, first), self.job(gpus, second)
            since = self.since(first)
            assert self.make().place(job, one, AT, since) == self.make().place(twin, two, AT, since)

    def test_what_a_refused_gang_claims_is_free_and_at_most_twice_its_need(self) -> None:
        rng = Random(5)
        for _ in range(300):
            ledger = self.ledger(rng)
            job = self.job(rng.randrange(1, max(ledger.gpus, 1) + 1), rng)
            claim = self.make().claim(job, ledger, AT, self.since(rng))
            assert sum(slots.bit_count() for _, slots in claim) <= 2 * job.gpus
            if claim:
                ledger.take(RunId(-1), claim)

    def test_no_gang_is_refused_in_an_empty_cluster(self) -> None:
        rng = Random(6)
        for _ in range(300):
            ledger = self.ledger(rng)
            for run_id in list(ledger.allocations):
                ledger.release(run_id)
            if not ledger.free:
                continue
            job = self.job(rng.randrange(1, ledger.free + 1), rng)
            assert self.make().place(job, ledger, AT, AT) is not None, (job.gpus, ledger.offered)

    def test_every_gang_that_fits_the_cluster_finishes(self) -> None:
        """No gang waits for ever, whatever else is submitted, and no slot is held twice."""
        for seed, policy in enumerate(("fifo", "fifo-skip", "srsf", "tiresias-l", "las")):
            sizes = (1, 1, 2, 3, 4, 8, 12)
            rows = random_trace(Random(seed), 60, sizes=sizes, longest_s=900, whole=seed % 2 == 0)
            models = [("vgg16", "resnet50", "")[nth % 3] for nth in range(60)]
            nodes = [2 if nth % 5 == 0 and 2 <= gpus <= 8 else None for nth, (_, gpus, _) in enumerate(rows)]
            story = story_of(a_trace(rows, model=models, nodes=nodes), "2*2x4", policy, placer=self.make())
            check_story(story, replans_without_events=self.make().migrations > 0)

    def test_the_plan_is_exact_whatever_happens(self) -> None:
        """No job waits that could start, and a new Controller for the same State decides the same."""
        for seed, policy in enumerate(("fifo-skip", "tiresias-l", "srsf", "fifo")):
            options = {"queues": "40,300"} if policy == "tiresias-l" else {}
            state = State(Cluster.of(2, 4, racks=2))
            controller = Controller(state, policies.make(policy, options), self.make())
            sizes = (0, 1, 2, 3, 4, 8)
            driven = RandomDriver(controller, Random(seed), sizes=sizes, kinds=EVERYTHING, over_nodes=0.25)
            for _ in range(60):
                driven.happen()
                check_consistent(driven)
            check_rebuilt(driven)
