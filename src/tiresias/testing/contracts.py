"""What every policy and every placer must do, as classes of tests to inherit from.

    class TestMine(PolicyContract):
        policy = "mine"
        options = {"quantum_s": "5"}

They use asserts only; any runner that finds methods named `test_` in classes named `Test` can run them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from random import Random
from typing import Any

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Node, Phase, RunId
from tiresias.core.plugins import OptionError, Placer, Policy, placers, policies
from tiresias.core.state import State
from tiresias.sim.trace import Trace
from tiresias.testing.builders import a_trace, random_trace
from tiresias.testing.checkers import check_story
from tiresias.testing.fuzz import QUIET, RandomDriver, check_anew, check_books
from tiresias.testing.story import story_of

NONSENSE = "@?!"


def complaint(action: Callable[[], object]) -> str | None:
    """What a person is told whose option is wrong; None if nothing is."""
    try:
        action()
    except OptionError as error:
        return str(error)
    return None


class PolicyContract:
    """For the policy registered as `policy`, with `options`."""

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

    def test_every_job_of_a_trace_finishes_and_nothing_is_held_twice(self) -> None:
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
        """Ranks compare, gangs are whole, and a Controller made anew from the State decides alike."""
        for seed in range(4):
            driven = self.driven(seed)
            for _ in range(60):
                driven.happen()
                check_books(driven)
            check_anew(driven)

    def test_a_rank_never_runs_out_in_the_past(self) -> None:
        driven = self.driven(7)
        state, policy = driven.state, driven.controller.policy
        for _ in range(80):
            driven.happen()
            for job in state.jobs.values():
                rank, until = policy.standing(job, state.memory, state.at)
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
                assert (reason.code == "Running") is (job.phase in (Phase.STARTING, Phase.RUNNING))

    def test_it_runs_without_knowing_durations_or_says_that_it_cannot(self) -> None:
        driven = self.driven(3)
        make_job = driven._job

        def without_duration(number: int) -> Any:
            job = make_job(number)
            job.duration_s = None
            return job

        driven._job = without_duration  # type: ignore[method-assign]
        told = complaint(driven.happen_often)
        assert told is None or (self.policy in told and "duration" in told), told

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
        restored = policy.restore(json.loads(json.dumps(policy.save(state.memory))))
        for job in state.jobs.values():
            before = policy.standing(job, state.memory, state.at)
            assert policy.standing(job, restored, state.at) == before, job.id

    def test_options_that_are_not_understood_are_named(self) -> None:
        told = complaint(lambda: self.make(no_such_option="1"))
        assert told is not None, "an unknown option was accepted"
        assert "no_such_option" in told
        assert self.policy in told
        for each in fields(self.make().options):
            told = complaint(lambda name=each.name: self.make(**{name: NONSENSE}))  # type: ignore[misc]
            if told is None:
                assert isinstance(each.default, str), ("nonsense was accepted", each.name)
            else:
                assert each.name in told, told
                assert NONSENSE in told, told


class PlacerContract:
    """For the placer registered as `placer`. `refuses` says that it may wait for better slots."""

    placer: str
    options: Mapping[str, Any] = {}
    refuses = False

    def make(self) -> Placer:
        made: Placer = placers.make(self.placer, self.options)
        return made

    def ledger(self, rng: Random) -> Ledger:
        """A cluster in use, with nodes of several sizes, some of them out of service."""
        ledger = Ledger(
            Cluster([Node(f"n{i}", rng.choice((1, 2, 4, 8))) for i in range(rng.randrange(1, 8))])
        )
        for node, spec in enumerate(ledger.nodes):
            taken = rng.randrange(1 << spec.gpus) & rng.randrange(1 << spec.gpus)
            if taken:
                ledger.take(RunId(node + 1), ((node, taken),))
            if rng.random() < 0.15:
                ledger.withdraw(spec.name)
        return ledger

    def test_a_gang_gets_exactly_what_it_asks_for_of_what_is_free(self) -> None:
        rng = Random(1)
        for _ in range(300):
            ledger = self.ledger(rng)
            gpus = rng.randrange(1, max(ledger.gpus, 1) + 2)
            allocation = self.make().place(Demand(gpus), ledger)
            if allocation is None:
                assert self.refuses or gpus > ledger.free, ("refused what fits", gpus, ledger.free)
                continue
            assert sum(slots.bit_count() for _, slots in allocation) == gpus
            assert len({node for node, _ in allocation}) == len(allocation)
            ledger.take(RunId(999), allocation)  # which refuses slots that are not free

    def test_what_does_not_fit_is_refused(self) -> None:
        rng = Random(2)
        for _ in range(50):
            ledger = self.ledger(rng)
            assert self.make().place(Demand(ledger.free + 1), ledger) is None

    def test_it_only_looks(self) -> None:
        rng = Random(3)
        for _ in range(50):
            ledger = self.ledger(rng)
            before = copy.deepcopy(vars(ledger))
            self.make().place(Demand(max(1, ledger.free)), ledger)
            assert {key: vars(ledger)[key] for key in before} == before

    def test_the_same_ledger_gives_the_same_slots(self) -> None:
        for seed in range(50):
            first, second = self.ledger(Random(seed)), self.ledger(Random(seed))
            demand = Demand(max(1, first.free // 2))
            assert self.make().place(demand, first) == self.make().place(demand, second)
