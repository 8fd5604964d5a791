"""gandiva: the contract of allocators, its five steps, its turns, what it packs, and when jobs migrate."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import Cluster, Demand, JobId, Phase, Priority
from tiresias.core.plugins import OptionError, placers, policies
from tiresias.core.state import State
from tiresias.policies.gandiva import _pays
from tiresias.profiles.utilisation import BUSY, busy, slowdown
from tiresias.sim import simulate
from tiresias.testing import a_job, a_trace
from tiresias.testing.contracts import AllocatorContract
from tiresias.testing.fuzz import EVERYTHING, RandomDriver, check_consistent
from tiresias.testing.story import Story, story_of


class TestGandiva(AllocatorContract):
    policy = "gandiva"


class TestGandivaWithoutPacking(AllocatorContract):
    policy = "gandiva"
    options: ClassVar[Mapping[str, Any]] = {"packing": "off", "layers": "2"}


class Lab:
    """A cluster under gandiva without a World: jobs are submitted, and one looks where they sit."""

    def __init__(self, cluster: Cluster, **options: str):
        policy = policies.make("gandiva", {"packing": "off", **options})
        self.controller = Controller(State(cluster), policy, placers.make("packed"))
        self.state = self.controller.state
        self.at = 0.0
        self.ids = 0

    def handle(self, *facts: f.Fact) -> None:
        from tiresias.core.controller import Step

        self.controller.handle(facts, Step())
        assert not self.controller.allotting.refused_wish, self.controller.allotting.refused_wish

    def submit(self, gpus: int, **more: Any) -> int:
        self.ids += 1
        self.handle(f.JobSubmitted(self.at, a_job(self.ids, gpus, self.at, **more)))
        job = self.state.jobs[JobId(self.ids)]
        if job.run is not None:
            self.handle(f.RunStarted(self.at, job.run.id))
        return self.ids

    def finish(self, id: int) -> None:
        run = self.state.jobs[JobId(id)].run
        assert run is not None
        self.handle(f.RunExited(self.at, run.id, f.ExitCause.FINISHED, 1.0))

    def make_way(self, id: int) -> None:
        """The run of the job has been stopped, and exits; the job may start again at once."""
        job = self.state.jobs[JobId(id)]
        assert job.run is not None
        assert job.phase is Phase.STOPPING
        self.at += 10.0
        self.handle(f.RunExited(self.at, job.run.id, f.ExitCause.PREEMPTED, 1.0))
        self.handle(f.RunStarted(self.at, job.run.id))

    def restart(self) -> None:
        """Another manager continues from the State."""
        controller = self.controller
        policy = policies.make("gandiva", {"packing": "off"})
        self.controller = Controller(controller.state, policy, placers.make("packed"))

    def gpus(self, id: int) -> int:
        run = self.state.jobs[JobId(id)].run
        return 0 if run is None else run.gpus

    def nodes(self, id: int) -> list[int]:
        run = self.state.jobs[JobId(id)].run
        return [] if run is None else [node for node, _ in run.allocation]

    def turns(self, id: int) -> tuple[int, int]:
        run = self.state.jobs[JobId(id)].run
        assert run is not None
        return run.turn, run.turns


def test_a_job_sits_with_jobs_of_its_size_then_on_an_empty_node_then_anywhere_then_shares() -> None:
    lab = Lab(Cluster.of(2, 4))
    one, two = lab.submit(1), lab.submit(2)
    assert (lab.nodes(one), lab.nodes(two)) == ([0], [1]), "an empty node"
    assert lab.nodes(lab.submit(1)) == [0], "the node of jobs of its size"
    assert lab.nodes(lab.submit(2)) == [1]
    other = lab.submit(2)
    assert lab.nodes(other) == [0], "any node with free slots"
    shares = lab.submit(2)
    assert lab.turns(shares)[1] == 2, "all slots are taken: it shares"
    assert sum(lab.turns(id)[1] == 2 for id in (two, 4, other, shares)) == 2


def test_jobs_on_one_seat_take_turns_and_the_last_one_gets_all_of_them() -> None:
    lab = Lab(Cluster.of(1, 1))
    ids = [lab.submit(1) for _ in range(3)]
    assert [lab.turns(id) for id in ids] == [(0, 3), (1, 3), (2, 3)]
    lab.finish(ids[1])
    assert [lab.turns(id) for id in (ids[0], ids[2])] == [(0, 2), (1, 2)]
    lab.finish(ids[0])
    assert lab.turns(ids[2]) == (0, 1)


def test_beyond_its_layers_a_job_waits_and_says_why() -> None:
    lab = Lab(Cluster.of(1, 1), layers="2")
    for _ in range(3):
        lab.submit(1)
    assert lab.nodes(3) == []
    reason = lab.controller.why(JobId(3))
    assert reason is not None
    assert "no seat of 1 GPUs has fewer than 2 jobs and enough memory" in reason.text
    lab.finish(1)
    assert lab.nodes(3) == [0]


def test_with_fewer_layers_than_before_jobs_of_upper_layers_go_on() -> None:
    lab = Lab(Cluster.of(1, 1))
    ids = [lab.submit(1) for _ in range(5)]
    lab.finish(ids[0])
    lab.finish(ids[1])
    fewer = policies.make("gandiva", {"packing": "off", "layers": "3"})
    lab.controller = Controller(lab.state, fewer, placers.make("packed"))
    lab.handle(f.TimerFired(lab.at))
    stopping = [id for id in ids[2:] if self_is_stopping(lab, id)]
    assert stopping == ids[3:], "they were on layers that there are no more"
    for id in stopping:
        run = lab.state.jobs[JobId(id)].run
        assert run is not None
        lab.handle(f.RunExited(lab.at, run.id, f.ExitCause.PREEMPTED, 1.0))
    assert sorted(lab.turns(id) for id in ids[2:]) == [(0, 3), (1, 3), (2, 3)]


def test_a_job_of_low_priority_is_paused_while_one_of_high_priority_is_on_its_seat() -> None:
    lab = Lab(Cluster.of(1, 1))
    low, high = lab.submit(1), lab.submit(1, priority=Priority.HIGH)
    assert (lab.turns(low), lab.turns(high)) == ((0, 0), (0, 1))
    lab.finish(high)
    assert lab.turns(low) == (0, 1)


def test_nobody_shares_with_a_job_that_may_not_be_preempted() -> None:
    lab = Lab(Cluster.of(1, 1))
    lab.submit(1, preemptible=False)
    assert lab.nodes(lab.submit(1)) == []


def test_when_a_job_leaves_one_of_a_fuller_seat_migrates_once_it_has_settled() -> None:
    lab = Lab(Cluster.of(1, 2), settle_s="100")
    first, second, third = (lab.submit(1) for _ in range(3))
    lab.at = 50.0
    lab.finish(second)
    assert lab.turns(first)[1] == 2, "it has not settled"
    lab.at = 100.0
    lab.handle(f.TimerFired(100.0))
    moving = [id for id in (first, third) if self_is_stopping(lab, id)]
    assert moving == [first]
    assert lab.turns(third) == (0, 1)


def self_is_stopping(lab: Lab, id: int) -> bool:
    return lab.state.jobs[JobId(id)].phase.value == "STOPPING"


def test_a_gang_that_has_waited_for_long_makes_smaller_jobs_migrate() -> None:
    rows = [(float(i), 1, 40000.0) for i in range(24)] + [(100.0, 8, 500.0)]
    story = story_of(a_trace(rows), "2x4", "gandiva", options={"packing": "off", "patience_s": "600"})
    gang = story.result.jobs.filter(pl.col("gpus") == 8)
    assert 600.0 <= gang["first_started_at"][0] - 100.0 <= 700.0
    assert story.result.jobs.height == 25


def seats(story: Story) -> int:
    """How often jobs of a story were told to work at the same time as another."""
    return sum(isinstance(fact, f.RunPaced) and fact.turns == 1 for fact in story.facts)


@pytest.mark.parametrize("model", sorted(BUSY))
def test_packing_gains_for_the_models_for_which_the_paper_says_so_and_is_undone_for_the_others(
    model: str,
) -> None:
    gains = model not in ("lstm", "resnet50", "resnext50")
    total = 2 / slowdown([busy(model)] * 2)
    assert (total > 1) is gains, (model, total)
    jobs = a_trace([(0.0, 1, 4000.0), (0.0, 1, 4000.0)], model=[model] * 2)
    packed, turns = (
        simulate(jobs, "1x1", "gandiva", options={"packing": packing}).summary()["makespan_s"]
        for packing in ("on", "off")
    )
    if gains:
        assert packed < turns
    else:
        assert packed == pytest.approx(turns, rel=0.01), "it was tried for a moment, and undone"


@pytest.mark.parametrize(
    ("option", "value"), [("layers", "0"), ("slice_s", "0"), ("packing", "maybe"), ("settle_s", "-1")]
)
def test_options_that_make_no_sense_are_refused(option: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"{option}='{value}'"):
        policies.make("gandiva", {option: value})


@pytest.mark.parametrize("seed", range(4))
def test_gangs_that_ask_for_nodes_sit_and_share_on_so_many(seed: int) -> None:
    controller = Controller(State(Cluster.of(3, 4)), policies.make("gandiva"), placers.make("packed"))
    driver = RandomDriver(controller, Random(seed), kinds=EVERYTHING, over_nodes=0.8)
    over_several = 0
    for _ in range(250):
        driver.happen()
        check_consistent(driver)
        over_several += sum(len(run.allocation) > 1 for run in controller.state.runs.values())
    assert over_several
    assert "has asked for" not in controller.allotting.first_refused_wish


# --- growing and shrinking -----------------------------------------------------------------------------


ELASTIC = {"min_gpus": [1, None, None], "max_gpus": [8, None, None]}


def sizes_of(story: Story, id: int) -> list[tuple[float, int]]:
    """When the runs of a job began, and on how many GPUs."""
    return [
        (fact.at, sum(mask.bit_count() for _, mask in fact.allocation))
        for fact in story.facts
        if isinstance(fact, f.RunGranted) and fact.job_id == id
    ]


@pytest.mark.parametrize("packing", ["on", "off"])
def test_an_elastic_job_grows_when_it_has_settled_and_shrinks_for_who_comes(packing: str) -> None:
    """It has eight GPUs to itself; a gang of four comes at 5,000 s and leaves 1,000 s later."""
    trace = a_trace([(0.0, 1, 36000.0), (5000.0, 4, 1000.0)], min_gpus=[1, None], max_gpus=[8, None])
    story = story_of(trace, "2x8", "gandiva", options={"packing": packing}, preemption_cost_s=60.0)
    assert sizes_of(story, 0) == [(0.0, 1), (610.0, 8)], "the gang finds an empty node"
    story = story_of(trace, "1x8", "gandiva", options={"packing": packing}, preemption_cost_s=60.0)
    assert sizes_of(story, 0)[:3] == [(0.0, 1), (610.0, 8), (5010.0, 4)], "what the gang leaves"
    assert sizes_of(story, 1) == [(5010.0, 4)], "it waits for one save"
    rules = [fact.why.rule for fact in story.facts if isinstance(fact, f.RunRevoked) and fact.why]
    assert set(rules) == {f.Rule.RESIZE}


def test_a_job_does_not_grow_over_what_others_could_use() -> None:
    """Three gangs of three on eight GPUs: two slots are free, and the third gang shares."""
    rows = [(0.0, 3, 20000.0)] * 3
    trace = a_trace(rows, min_gpus=[3, None, None], max_gpus=[8, None, None])
    story = story_of(trace, "1x8", "gandiva", options={"packing": "off"})
    both_share = next(fact.at for fact in story.facts if isinstance(fact, f.RunExited))
    assert [size for at, size in sizes_of(story, 0) if at < both_share] == [3]


def test_as_few_jobs_shrink_as_are_needed() -> None:
    trace = a_trace(
        [(0.0, 1, 90000.0), (0.0, 1, 90000.0), (2000.0, 2, 100.0)],
        min_gpus=[1, 1, None],
        max_gpus=[5, 3, None],
    )
    story = story_of(trace, "1x8", "gandiva", options={"packing": "off"})
    before = [size for id in (0, 1) for at, size in sizes_of(story, id) if at < 2000.0]
    assert before == [1, 5, 1, 3]
    shrunk = [id for id in (0, 1) for at, size in sizes_of(story, id) if 2000.0 <= at < 2200.0]
    assert shrunk == [0], "it has the most to give"


def test_nobody_shares_the_gpus_of_a_job_that_has_grown() -> None:
    rows = [(0.0, 1, 90000.0), (2000.0, 4, 9000.0), (2000.0, 4, 9000.0)]
    story = story_of(a_trace(rows, **ELASTIC), "1x8", "gandiva", options={"packing": "off"})
    of_first = [fact for fact in story.facts if isinstance(fact, f.RunPaced)]
    runs = {run for run, grant in story.grants().items() if grant.job_id == 0}
    assert not [fact for fact in of_first if fact.run_id in runs]


def test_a_restarted_manager_knows_who_has_grown_and_who_may() -> None:
    """The seats are found again from the wish; the jobs on them grow and shrink as before."""
    lab = Lab(Cluster.of(1, 8))
    elastic = lab.submit(1, demand=Demand(1, max_gpus=8))

    lab.restart()
    lab.at = 700.0  # it has settled
    lab.handle(f.TimerFired(lab.at))
    lab.make_way(elastic)
    assert lab.gpus(elastic) == 8

    lab.restart()
    lab.at = 2000.0
    gang = lab.submit(4)
    lab.make_way(elastic)
    assert (lab.gpus(elastic), lab.gpus(gang)) == (4, 4), "what the gang leaves"


def test_what_was_measured_not_to_pay_is_not_repeated() -> None:
    policy = policies.make("gandiva", {})
    memory = policy.new_memory()
    lab = Lab(Cluster.of(1, 8))
    job = lab.state.jobs[JobId(lab.submit(1))]
    assert _pays(memory, job, 4), "nothing is known"
    memory["alone"] |= {f"{job.model}*1": 1.0, f"{job.model}*4": 1.01}
    assert not _pays(memory, job, 4)
    memory["alone"][f"{job.model}*4"] = 3.0
    assert _pays(memory, job, 4)


def test_on_a_quiet_cluster_jobs_that_may_grow_end_sooner() -> None:
    rows = [(600.0 * nth, 1 + nth % 2, 7200.0) for nth in range(12)]
    rigid = simulate(a_trace(rows), "4x8", "gandiva")
    elastic = simulate(a_trace(rows, max_gpus=[4 * gpus for _, gpus, _ in rows]), "4x8", "gandiva")
    assert elastic.resizes
    assert elastic.summary()["avg_jct_s"] < 0.7 * rigid.summary()["avg_jct_s"]


def test_why_says_what_the_size_of_an_elastic_job_depends_on() -> None:
    lab = Lab(Cluster.of(1, 8))
    reason = lab.controller.why(JobId(lab.submit(1, demand=Demand(1, max_gpus=4))))
    assert reason is not None
    assert "it grows while GPUs of its node are free" in reason.text
