"""Jobs without GPUs: CPU work beside the GPUs, which no policy ranks and no plan stops."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster, Demand, Node, Phase, Priority, Rank
from tiresias.core.plugins import Policy, parse_options, placers, policies
from tiresias.core.state import EVOLVE, JobState, State
from tiresias.testing import Harness
from tiresias.testing.fuzz import EVERYTHING, RandomDriver, check_rebuilt

POLICIES = sorted(policies.names())


def lab(policy: str = "tiresias-l", *, cores: int = 4, gpus: int = 4) -> Harness:
    """One node, on which two jobs without GPUs may run at once."""
    return Harness(policy, cluster=Cluster([Node("n", gpus, cpus=cores)]))


@pytest.mark.parametrize("policy", POLICIES)
def test_it_starts_beside_full_gpus_and_takes_nothing_from_them(policy: str) -> None:
    scene = lab(policy).running("train", gpus=4, duration_s=900.0)
    assert scene.submit("summary", gpus=0).started == ["summary"]
    summary = scene.job("summary")
    assert (summary.phase, summary.run.allocation) == (Phase.RUNNING, ())  # type: ignore[union-attr]
    assert scene.state.ledger.free == 0
    scene.at += 60.0
    shares = getattr(policies.get(policy), "layers", 1) > 1
    assert scene.submit("next", gpus=4, duration_s=1.0).started == (["next"] if shares else [])
    assert summary.service_at(scene.at) == 0.0
    assert summary.executed_at(scene.at) == 60.0
    assert scene.finish("summary").ended == ["summary"]


def test_it_is_never_preempted_and_preempts_nothing() -> None:
    scene = lab("srtf").running("summary", gpus=0, service_s=5000.0).pending("train", gpus=4, duration_s=9.0)
    assert scene.plan().started == ["train"]
    plan = scene.submit("urgent", gpus=4, duration_s=1.0, priority=Priority.HIGH)
    assert plan.preempted == ["train"]
    assert scene.submit("other", gpus=0, priority=Priority.HIGH).preempted == []
    assert scene.job("summary").phase is Phase.RUNNING


def test_as_many_run_at_once_as_half_the_cores_and_the_others_say_why() -> None:
    scene = lab(cores=4)
    for name in ("a", "b", "c", "d"):
        scene.submit(name, gpus=0)
    scene.submit("now", gpus=0, priority=Priority.HIGH)
    reason = scene.why("d")
    assert reason.code == "LimitOfJobsWithoutGPUs"
    assert reason.text == (
        "as many jobs without GPUs run as may: 2 of at most 2 run, and 2 jobs wait before it"
    )
    assert scene.finish("a").started == ["now"]
    assert scene.finish("b").started == ["c"]
    assert scene.submit("train", gpus=4).started == ["train"]


def test_the_number_follows_the_nodes_in_service() -> None:
    cluster = Cluster([Node("a", 4, cpus=2), Node("b", 2), Node("c", 0, cpus=64, cpus_per_slot=8)])
    scene = Harness("fifo", cluster=cluster)
    assert scene.controller.without_gpus.most == 1 + 2 + 32
    for node in ("a", "b", "c"):
        scene.drain(node)
    assert scene.submit("summary", gpus=0).started == []
    assert scene.why("summary").text.endswith("no node is in service")
    assert scene.restore("a").started == ["summary"]
    scene.controller.handle([f.NodeCoresCounted(scene.at, "a", 16)], Step())
    assert scene.controller.without_gpus.most == 8


def test_a_stop_a_hold_and_a_deferral_are_as_for_every_job() -> None:
    scene = lab(cores=2)
    scene.submit("a", gpus=0)
    scene.submit("b", gpus=0)
    assert scene.defer("b", "BeginTime", until=30.0).started == []
    assert scene.requeue("a").stopped == ["a"]
    assert scene.why("b").code == "BeginTime"
    assert scene.exit("a").started == ["a"]
    assert scene.wait(40.0).started == []
    assert scene.why("b").code == "LimitOfJobsWithoutGPUs"
    assert scene.hold("a").stopped == ["a"]
    assert scene.exit("a").started == ["b"]
    assert scene.cancel("b").stopped == ["b"]
    assert scene.exit("b").ended == ["b"]
    assert scene.release("a").started == ["a"]


def test_a_job_may_give_up_its_gpus_before_its_first_run_and_ask_for_them_again() -> None:
    scene = lab().running("train", gpus=4, preemptible=False)
    assert scene.submit("job", gpus=2).started == []
    assert scene.change("job", demand=Demand(0)).started == ["job"]
    scene.submit("more", gpus=0)
    assert scene.submit("waits", gpus=0).started == []
    assert scene.change("waits", demand=Demand(1)).started == []
    assert scene.finish("train").started == ["waits"]
    assert scene.controller.without_gpus.waiting == {}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("placer", ["packed", "profile"])
def test_whatever_happens_they_are_counted_and_started(policy: str, placer: str) -> None:
    cluster = Cluster([Node("a", 4, cpus=4), Node("b", 2, cpus=2)])
    for seed in range(4):
        controller = Controller(State(cluster), policies.make(policy), placers.make(placer))
        driven = RandomDriver(controller, Random(seed), sizes=(0, 0, 1, 2, 4), kinds=EVERYTHING)
        for _ in range(80):
            driven.happen()
            invariants.check_plan(controller)
        check_rebuilt(driven)


def test_a_silent_node_counts_for_nothing_until_it_returns() -> None:
    scene = lab()
    scene.fall_silent("n")
    assert scene.submit("summary", gpus=0).started == []
    assert scene.why("summary").text.endswith("no node is in service")
    assert scene.come_back("n").started == ["summary"]


def test_policies_and_views_do_not_see_them() -> None:
    scene = lab().pending("train", gpus=1).pending("summary", gpus=0)
    assert scene.plan().started == ["train", "summary"]
    view = scene.controller.view
    assert [job.gpus for job in view.running()] == [1]
    assert [job.gpus for job in view.ranked()] == [1]
    assert list(view.waiting()) == []


class Curious(Policy):
    """Learns from every fact, and refuses to hear of a job without GPUs."""

    name = "curious"
    learns = frozenset(EVOLVE)

    def rank(self, job: JobState, memory: object, at: float) -> Rank:
        assert job.gpus, ("ranked", job.id)
        return ()

    def learn(self, memory: object, fact: object, job: JobState | None) -> bool:
        assert job is None or job.gpus, ("learned from", fact)
        return False


def test_no_policy_ever_hears_of_them() -> None:
    cluster = Cluster([Node("a", 4, cpus=4), Node("b", 2, cpus=2)])
    for seed in range(4):
        controller = Controller(State(cluster), Curious(parse_options(Curious, {})), placers.make("packed"))
        driven = RandomDriver(controller, Random(seed), sizes=(0, 1, 2), kinds=EVERYTHING)
        most_running = 0
        for _ in range(240):
            driven.happen()
            most_running = max(most_running, len(controller.without_gpus.running))
        assert most_running
