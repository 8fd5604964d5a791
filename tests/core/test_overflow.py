"""Jobs that run on CPUs while the GPUs are full, and change to GPUs when theirs are free."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Controller
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Job, JobId, Node, Phase
from tiresias.core.overflow import place
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.testing import Harness
from tiresias.testing.fuzz import EVERYTHING, RandomDriver, check_consistent, check_rebuilt

QUEUES = {"queues": "1000", "order": "first-start"}


def lab(policy: str = "tiresias-l", *, cores: int = 32, gpus: int = 4, **more: Any) -> Harness:
    """A node of 4 GPUs and one of 4 slots of CPUs."""
    nodes = [Node("g", gpus, rack="r"), Node("c", 0, rack="r", cpus=cores)]
    options = QUEUES if policy == "tiresias-l" else {}
    return Harness(policy, cluster=Cluster(nodes), options=options, **more)


def on_cpus(gpus: int = 1, speed: float = 0.1) -> Demand:
    return Demand(gpus, cpu_speed=speed)


def runs_on(scene: Harness, name: str) -> str:
    job = scene.job(name)
    return "" if job.run is None else job.run.pool.value


def test_a_job_runs_on_cpus_while_the_gpus_are_full() -> None:
    scene = lab().running("a", gpus=4)
    assert scene.submit("b", demand=on_cpus(2)).started == ["b"]
    assert runs_on(scene, "b") == "CPUs"
    assert scene.nodes_of("b") == {"c": 2}
    assert scene.job("b").phase is Phase.RUNNING


def test_a_job_that_cannot_run_on_cpus_or_may_not_be_preempted_waits_for_gpus() -> None:
    scene = lab().running("a", gpus=4)
    assert scene.submit("b", gpus=2).started == []
    assert scene.submit("c", demand=on_cpus(2), preemptible=False).started == []


def test_cpus_are_filled_in_the_order_of_ranks_as_far_as_they_go() -> None:
    scene = lab().running("a", gpus=4)
    scene.pending("b", demand=on_cpus(3)).pending("c", demand=on_cpus(2)).pending("d", demand=on_cpus(1))
    assert scene.plan().started == ["b", "d"]
    assert scene.finish("b").started == ["c"]


def test_no_job_runs_on_cpus_while_gpus_are_free() -> None:
    scene = lab().running("a", gpus=3)
    scene.submit("b", demand=on_cpus(1))
    assert runs_on(scene, "b") == "GPUs"


def test_a_run_on_cpus_is_stopped_and_goes_on_on_gpus_when_they_are_free() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    scene.wait(100)
    plan = scene.finish("a")
    assert (plan.preempted, plan.started) == (["b"], [])
    assert scene.job("b").phase is Phase.STOPPING
    plan = scene.submit("c", gpus=3)  # the GPUs of b are kept
    assert plan.started == []
    assert scene.submit("d", gpus=2).started == ["d"]
    assert scene.exit("b").started == ["b"]
    assert runs_on(scene, "b") == "GPUs"
    assert scene.job("b").progress_s == 100  # the harness reports full speed


def test_its_very_gpus_are_kept_for_it_while_it_saves() -> None:
    nodes = [Node("g0", 4), Node("g1", 4), Node("c", 0, cpus=32)]
    scene = Harness("tiresias-l", cluster=Cluster(nodes), options=QUEUES).running("a", gpus=8)
    scene.submit("b", demand=on_cpus(4))
    scene.finish("a")
    scene.submit("x", gpus=1)  # the placer would give it the first free slot
    assert scene.nodes_of("x") == {"g1": 1}
    scene.exit("b")
    assert scene.nodes_of("b") == {"g0": 4}


def test_it_attains_no_service_and_to_its_policy_it_waits() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    scene.wait(5000)
    job = scene.job("b")
    assert (job.service_at(scene.at), job.executed_at(scene.at)) == (0.0, 5000.0)
    scene.finish("a")
    scene.exit("b")
    assert (job.service_gpu_s, job.executed_s) == (0.0, 5000.0)
    assert (job.preemptions, job.first_started_at, job.runs) == (0, 5000.0, 2)
    scene.wait(100)
    assert job.service_at(scene.at) == 200.0


def test_a_run_on_cpus_does_not_improve_the_rank_of_its_job() -> None:
    """c came before b and cannot use CPUs: b starting there does not put it ahead of c."""
    scene = lab().running("a", gpus=4).pending("c", gpus=4, waited_s=10)
    scene.pending("b", demand=on_cpus(4), waited_s=5)
    scene.plan()
    assert runs_on(scene, "b") == "CPUs"
    assert scene.finish("a").started == ["c"]
    assert runs_on(scene, "b") == "CPUs"


def test_it_may_finish_or_fail_there() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    scene.submit("c", demand=on_cpus(2))
    assert scene.finish("b").ended == ["b"]
    assert scene.fail("c").ended == ["c"]
    assert scene.state.cpus is not None
    assert scene.state.cpus.free == 4


def test_it_may_fail_of_something_curable_and_is_tried_again() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    assert scene.exit("b").started == ["b"]
    assert runs_on(scene, "b") == "CPUs"


@pytest.mark.parametrize("what", ["hold", "cancel", "requeue"])
def test_people_stop_it_as_they_stop_any_run(what: str) -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    assert getattr(scene, what)("b").stopped == ["b"]
    plan = scene.exit("b")
    assert plan.started == (["b"] if what == "requeue" else [])
    assert plan.ended == (["b"] if what == "cancel" else [])


def test_nothing_starts_on_a_drained_node_of_cpus() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(1))
    scene.drain("c")
    assert scene.submit("x", demand=on_cpus(1)).started == []
    assert scene.restore("c").started == ["x"]
    scene.drain_slot("c", 2)
    scene.drain_slot("c", 3)
    assert scene.submit("y", demand=on_cpus(1)).started == []
    assert runs_on(scene, "b") == "CPUs"


def test_a_policy_that_never_preempts_uses_cpus_only_on_request() -> None:
    scene = lab("fifo").running("a", gpus=4)
    assert scene.submit("b", demand=on_cpus(1)).started == []
    scene.controller.policy.uses_cpus = True
    assert scene.submit("c", demand=on_cpus(1)).started == ["b", "c"]
    assert scene.finish("a").stopped == ["b", "c"]


def test_why_tells_where_it_runs_and_how_fast() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2, speed=0.25))
    reason = scene.why("b")
    assert reason is not None
    assert reason.code == "RunningOnCPUs"
    assert reason.text == "it runs on CPUs until GPUs are free: on node c, at 0.25 of the speed"


def test_gangs_take_the_fewest_nodes_of_cpus() -> None:
    ledger = Ledger(Cluster([Node("a", 2), Node("b", 4), Node("c", 4), Node("d", 3)]))
    assert place(3, ledger) == ((3, 0b111),)
    assert place(6, ledger) == ((1, 0b1111), (0, 0b11))
    assert place(13, ledger) == ((1, 0b1111), (2, 0b1111), (3, 0b111), (0, 0b11))


def test_the_invariants_notice_a_job_that_is_kept_from_free_gpus() -> None:
    scene = lab().running("a", gpus=4)
    scene.submit("b", demand=on_cpus(2))
    scene.finish("a")
    scene.job("b").phase = Phase.RUNNING
    with pytest.raises(AssertionError, match="is kept on CPUs"):
        invariants.check_plan(scene.controller)


class Mixed(RandomDriver):
    """Half of the jobs can run on CPUs. Keeps its own count of service: on GPUs, from grant to exit."""

    def __init__(self, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self.service_gpu_s: dict[JobId, float] = defaultdict(float)
        self.cpu_exits = 0

    def handle(self, facts: list[f.Fact]) -> None:
        for fact in facts:
            if isinstance(fact, f.RunExited):
                run = self.state.runs[fact.run_id]
                if self.state.ledger.nodes[run.allocation[0][0]].gpus:
                    slots = sum(slots.bit_count() for _, slots in run.allocation)
                    self.service_gpu_s[run.job_id] += slots * (fact.at - run.granted_at)
                else:
                    self.cpu_exits += 1
        super().handle(facts)
        for id, job in self.state.jobs.items():
            assert job.service_gpu_s == pytest.approx(self.service_gpu_s[id])

    def _job(self, number: int) -> Job:
        job = super()._job(number)
        return replace(job, demand=replace(job.demand, cpu_speed=self.rng.choice((None, 0.1))))


POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("tiresias-l", {"queues": "40,300", "order": "first-start"}),
    ("tiresias-l", {"queues": "40,300", "order": "running-first", "min_run_s": "15", "promote_knob": "2"}),
    ("tiresias-l", {"queues": "40,300", "order": "last-preempted-first"}),
    ("tiresias-g", {"queues": "100,800", "learn_after": "5"}),
    ("las", {"quantum_s": "10"}),
    ("srsf", {}),
    ("fifo", {}),
]


@pytest.mark.parametrize("placer", ["packed", "consolidated", "relaxing"])
@pytest.mark.parametrize("number", range(len(POLICIES)))
@settings(max_examples=12)
@given(seed=st.integers(0, 10**9))
def test_the_invariants_hold_whatever_happens(number: int, placer: str, seed: int) -> None:
    """No slot is taken twice, admitted jobs leave the CPUs as soon as they can, only GPUs give service."""
    name, options = POLICIES[number]
    nodes = [Node("g0", 4), Node("c0", 0, cpus=30), Node("g1", 4), Node("c1", 0, cpus=16)]
    policy = policies.make(name, options)
    policy.uses_cpus = True
    controller = Controller(State(Cluster(nodes)), policy, placers.make(placer))
    driven = Mixed(controller, Random(seed), sizes=(1, 1, 2, 4, 8))
    for _ in range(50):
        driven.happen()
        check_consistent(driven)
        if driven.rng.random() < 0.2:
            check_rebuilt(driven)


def test_the_random_jobs_do_run_on_cpus() -> None:
    nodes = [Node("g0", 4), Node("c0", 0, cpus=32)]
    controller = Controller(State(Cluster(nodes)), policies.make("srsf"), placers.make("packed"))
    few_gpus = EVERYTHING - {"add node"}
    driven = Mixed(controller, Random(1), sizes=(1, 2, 4), kinds=few_gpus)
    driven.happen_often(1600)
    assert driven.cpu_exits > 10
