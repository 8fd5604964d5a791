"""Elastic jobs: what a wish may give them, how a run changes its size, what other policies do with them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allotment, ExitCause
from tiresias.core.model import Cluster, Demand, JobId, Phase
from tiresias.core.plugins import Allocator, placers, policies
from tiresias.core.state import State
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish
from tiresias.sim.simulate import simulate
from tiresias.store import memories
from tiresias.testing import a_job, a_trace, own_allocators  # noqa: F401  (for what it registers)
from tiresias.testing.builders import random_trace
from tiresias.testing.checkers import check_story
from tiresias.testing.fuzz import EVERYTHING, SIZES, RandomDriver, check_consistent, check_rebuilt
from tiresias.testing.story import story_of


class Told(Allocator):
    """Wants each job to have the size that the test tells."""

    name = "told"

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, Any] = {}
        self.until: float | None = None
        self.at_once = False

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        wish = Wish(again_at=at)
        for id, gpus in self.sizes.items():
            wish.jobs[JobId(id)] = Allotment(JobId(id), gpus, until=self.until)
        for job in view.taken():
            if job.id in view.wish:
                wish.jobs[job.id] = view.wish[job.id]
        return wish


class Lab:
    """Eight GPUs on two nodes, and an allocator that is told what to wish."""

    def __init__(self) -> None:
        self.allocator = Told()
        self.state = State(Cluster.of(2, 4))
        self.controller = Controller(self.state, self.allocator, placers.make("packed"))
        self.step = Step()

    def handle(self, *facts: f.Fact) -> list[Any]:
        self.step = Step()
        self.controller.handle(facts, self.step)
        return [each for each in self.step.commands if not isinstance(each, SetTimer)]

    def submit(self, at: float, id: int, gpus: int, *range: int) -> None:
        least, most = range or (None, None)
        demand = Demand(gpus, max_gpus=most, min_gpus=least)
        self.handle(f.JobSubmitted(at, a_job(id, gpus, at, demand=demand)))

    def want(self, at: float, **sizes: Any) -> list[Any]:
        self.allocator.sizes = {int(name[1:]): gpus for name, gpus in sizes.items()}
        return self.handle(f.TimerFired(at))

    def job(self, id: int) -> Any:
        return self.state.jobs[JobId(id)]

    @property
    def refused(self) -> str:
        return "".join(each.problem for each in self.step.facts if isinstance(each, f.WishRefused))


def test_a_run_changes_its_size_by_a_stop_and_a_start_and_its_service_is_that_of_each_run() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    [started] = lab.want(0.0, j1=2)
    assert isinstance(started, StartRun)
    lab.handle(f.RunStarted(0.0, started.run_id))
    assert lab.want(100.0, j1=4) == [StopRun(started.run_id)]
    [revoked] = [each for each in lab.step.facts if isinstance(each, f.RunRevoked)]
    assert revoked.why == f.Revocation(f.Rule.RESIZE, gpus=4)
    assert lab.job(1).phase is Phase.STOPPING
    assert lab.job(1).service_at(110.0) == 220, "it is saving on its two GPUs"
    [again] = lab.handle(f.RunExited(110.0, started.run_id, ExitCause.PREEMPTED, 100.0))
    assert sum(mask.bit_count() for _, mask in again.allocation) == 4
    assert again.resumes
    assert lab.job(1).service_at(120.0) == 220 + 40
    assert lab.want(130.0, j1=1) == [StopRun(again.run_id)]
    [last] = lab.handle(f.RunExited(130.0, again.run_id, ExitCause.PREEMPTED, 115.0))
    lab.handle(f.RunExited(230.0, last.run_id, ExitCause.FINISHED, 200.0))
    assert lab.step.ended[0].service_gpu_s == 220 + 80 + 100


def test_a_job_that_waits_starts_with_the_size_that_the_wish_gives_it_and_nothing_is_stopped() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    [started] = lab.want(0.0, j1=7)
    assert lab.job(1).run.gpus == 7
    assert sum(mask.bit_count() for _, mask in started.allocation) == 7


def test_two_jobs_swap_gpus_and_each_waits_for_what_the_other_leaves() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 4, 1, 8)
    lab.submit(-9.0, 2, 4, 1, 8)
    first, second = lab.want(0.0, j1=4, j2=4)
    assert lab.want(50.0, j1=6, j2=2) == [StopRun(first.run_id), StopRun(second.run_id)]
    assert lab.handle(f.RunExited(51.0, first.run_id, ExitCause.PREEMPTED, 50.0)) == [], "4 are free"
    commands = lab.handle(f.RunExited(52.0, second.run_id, ExitCause.PREEMPTED, 50.0))
    assert [(each.job_id, sum(mask.bit_count() for _, mask in each.allocation)) for each in commands] == [
        (1, 6),
        (2, 2),
    ]


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"j1": 1}, "it gives job 1 1 GPUs, and the job runs on 2 to 6"),
        ({"j1": 7}, "it gives job 1 7 GPUs, and the job runs on 2 to 6"),
        ({"j1": 2.5}, "it gives job 1 2.5 GPUs, and the job runs on 2 to 6"),
        ({"j1": True}, "it gives job 1 True GPUs, and the job runs on 2 to 6"),
        ({"j2": 3}, "it splits the gang of job 2: it gives 3 GPUs, and the job needs 2"),
        ({"j1": 6, "j2": 2, "j3": 1}, "it gives jobs 9 GPUs (the last one is job 3), and there are 8"),
    ],
)
def test_a_size_that_a_job_does_not_run_on_is_refused_and_named(sizes: Any, problem: str) -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 4, 2, 6)
    lab.submit(-9.0, 2, 2)
    lab.submit(-9.0, 3, 1)
    assert lab.want(1.0, **sizes) == []
    assert problem in lab.refused


def test_what_is_given_is_counted_with_the_sizes_of_the_wish() -> None:
    lab = Lab()
    for id in (1, 2):
        lab.submit(-9.0, id, 1, 1, 8)
    lab.want(0.0, j1=7, j2=1)
    assert lab.want(1.0, j1=2, j2=6) != []
    assert lab.refused == ""
    lab.want(2.0, j1=2, j2=7)
    assert "it gives jobs 9 GPUs" in lab.refused


def test_a_run_is_protected_by_the_gpus_that_it_has_and_not_by_those_that_its_job_is_to_get() -> None:
    """Jobs that do not save are protected on a quarter of the eight GPUs; each of the two runs has four."""
    lab = Lab()
    for id in (1, 2):
        lab.submit(-9.0, id, 2, 1, 8)
    runs = [each.run_id for each in lab.want(0.0, j1=4, j2=4)]
    for id, run_id in zip((1, 2), runs, strict=True):
        lab.handle(f.RunStarted(1.0, run_id), f.WorkLost(1.0, JobId(id), 60.0, 4))
    assert lab.want(50.0, j1=3, j2=1) == [StopRun(run_id) for run_id in runs]
    invariants.check_plan(lab.controller)
    for run_id in runs:
        lab.handle(f.RunExited(51.0, run_id, ExitCause.PREEMPTED, 50.0))
    assert [lab.job(1).run.gpus, lab.job(2).run.gpus] == [3, 1]
    [stopped] = lab.want(60.0, j1=4, j2=4)
    assert stopped == StopRun(lab.job(1).run.id), "the other one is protected now, and keeps its GPU"
    invariants.check_plan(lab.controller)


def test_a_leased_run_keeps_its_size_until_the_lease_ends() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    lab.allocator.until = 100.0
    lab.want(0.0, j1=2)
    lab.allocator.until = None
    assert lab.want(50.0, j1=4) == []
    [stopped] = lab.want(101.0, j1=4)
    assert isinstance(stopped, StopRun)


def test_a_run_that_is_resized_with_a_lease_is_stopped_and_the_next_one_has_the_lease() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    [started] = lab.want(0.0, j1=2)
    lab.allocator.until = 100.0
    assert lab.want(10.0, j1=4) == [StopRun(started.run_id)]
    lab.handle(f.RunExited(11.0, started.run_id, ExitCause.PREEMPTED, 5.0))
    lab.allocator.until = None
    assert lab.want(50.0, j1=1) == [], "its lease goes on"


def test_under_another_policy_a_run_keeps_its_size_and_the_next_one_has_the_reference_size() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    [started] = lab.want(0.0, j1=6)
    lab.handle(f.RunStarted(0.0, started.run_id))
    controller = Controller(lab.state, policies.make("fifo"), placers.make("packed"))
    step = Step()
    controller.handle([f.JobSubmitted(1.0, a_job(2, 4, 1.0))], step)
    assert [type(each) for each in step.commands] == [], "six GPUs are taken, and two are too few"
    assert controller.target.capacity == 2
    controller.handle([f.RunExited(9.0, started.run_id, ExitCause.RETRIED, 8.0)], step)
    grants = {each.job_id: each for each in step.facts if isinstance(each, f.RunGranted)}
    assert sum(mask.bit_count() for _, mask in grants[JobId(1)].allocation) == 2
    assert grants.keys() == {1, 2}


def test_sizes_outlive_a_restart() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    lab.submit(-9.0, 2, 1, 1, 8)
    lab.want(0.0, j1=6, j2=2)
    text = memories.dump(lab.allocator, lab.state)
    fresh = State(Cluster.of(2, 4))
    for id, job in lab.state.jobs.items():
        fresh.jobs[id] = type(job)(job.job)
    memories.read(lab.allocator, text).restore(fresh)
    assert {id: job.gpus for id, job in fresh.jobs.items()} == {1: 6, 2: 2}


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "tiresias-l", "philly", "themis", "two-level"])
def test_a_policy_that_does_not_size_jobs_runs_them_at_their_reference_size(policy: str) -> None:
    rows = random_trace(Random(5), 40, sizes=(1, 2, 4))
    gpus = [row[1] for row in rows]
    plain = story_of(a_trace(rows), "2x4", policy)
    elastic = story_of(a_trace(rows, min_gpus=[1] * 40, max_gpus=[n + 4 for n in gpus]), "2x4", policy)
    assert elastic.result.jobs["finished_at"].to_list() == plain.result.jobs["finished_at"].to_list()
    check_story(elastic, replans_without_events=True)
    assert elastic.result.summary()["resizes"] == 0
    assert "resizes" not in plain.result.summary()


def test_an_elastic_job_is_as_much_faster_as_the_assumed_curve_says_and_a_resize_costs_a_preemption() -> None:
    trace = a_trace([(0.0, 1, 1000.0), (100.0, 2, 100.0)], max_gpus=[4, None])
    result = simulate(trace, "1x4", "sized", preemption_cost_s=60.0)
    long, other = (result.jobs.row(nth, named=True) for nth in range(2))
    assert other["jct_s"] == pytest.approx(100 + 10), "it waits for two GPUs until the first job has saved"
    fast, slow = 4**0.9, 2**0.9
    done_s = 100 * fast + (210 - 110 - 50) * slow  # 10 s of saving and 50 s of loading with each resize
    assert long["finished_at"] == pytest.approx(210 + 10 + 50 + (1000 - done_s) / fast)
    assert (long["preemptions"], result.summary()["resizes"]) == (2, 2)
    assert long["service_gpu_s"] == pytest.approx(110 * 4 + 110 * 2 + (long["finished_at"] - 220) * 4)


@pytest.mark.parametrize("seed", range(6))
def test_simulations_of_elastic_jobs_keep_every_promise(seed: int) -> None:
    rows = random_trace(Random(seed), 40, sizes=(1, 2, 3), whole=seed % 2 == 0)
    columns = {
        "min_gpus": [1 if nth % 2 else None for nth in range(40)],
        "max_gpus": [row[1] + nth % 4 if nth % 3 else None for nth, row in enumerate(rows)],
    }
    story = story_of(a_trace(rows, **columns), "2x4", "sized", preemption_cost_s=float(seed % 3 * 6))
    check_story(story)
    assert story.result.summary()["resizes"] > 5, "hardly any run was resized"


class Moody(Allocator):
    """Wishes whatever comes to its mind; one wish in seven or so is more than there is."""

    name = "moody"

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.is_good = True

    def allot(self, view: AllotView, memory: Any, at: float) -> Wish:
        rng, wish, room = self.rng, Wish(), view.room
        self.is_good = True
        for job in view.taken():
            if job.id in view.wish:
                wish.jobs[job.id] = view.wish[job.id]
        for job in view.jobs():
            demand = job.job.demand
            gpus = rng.randrange(demand.least, demand.most + 1)
            if rng.random() < 0.06:
                gpus = demand.most + 1
            if rng.random() < 0.3 or (gpus > room and rng.random() < 0.9):
                continue
            room -= gpus
            self.is_good = self.is_good and room >= 0 and gpus <= demand.most
            wish.give(job, gpus=gpus, until=at + 50 if rng.random() < 0.1 else None)
        return wish


def test_whatever_is_wished_the_plan_is_that_of_a_plain_recomputation() -> None:
    """Random wishes, good and bad ones: each is applied as a whole or not at all."""
    refused = resized = 0
    for seed in range(20):
        allocator = Moody(Random(seed))
        controller = Controller(State(Cluster.of(3, 4)), allocator, placers.make("packed"))
        driven = RandomDriver(controller, Random(seed), kinds=EVERYTHING | SIZES)
        for _ in range(80):
            driven.happen()
            check_consistent(driven)
            problem = controller.allotting.refused_wish
            assert allocator.is_good is not bool(problem), problem
            refused += not allocator.is_good
            runs = [job for job in driven.state.jobs.values() if job.run is not None]
            resized += any(job.run is not None and job.run.gpus != job.gpus for job in runs)
    assert refused > 20, "hardly any wish was refused"
    assert resized > 50, "hardly any run was resized"


@pytest.mark.parametrize("policy", ["tiresias-l", "fifo", "sized"])
def test_elastic_jobs_under_any_policy_whatever_happens(policy: str) -> None:
    for seed in range(4):
        controller = Controller(State(Cluster.of(3, 4)), policies.make(policy), placers.make("packed"))
        driven = RandomDriver(controller, Random(seed), kinds=EVERYTHING | SIZES)
        for _ in range(60):
            driven.happen()
            check_consistent(driven)
        check_rebuilt(driven)


def test_the_range_of_a_job_may_change_before_it_has_run_and_not_later() -> None:
    lab = Lab()
    lab.submit(-9.0, 1, 2, 1, 8)
    job = lab.job(1).job
    lab.handle(f.JobChanged(1.0, replace(job, demand=Demand(2, max_gpus=3))))
    lab.want(2.0, j1=8)
    assert "the job runs on 2 to 3" in lab.refused
    lab.want(3.0, j1=3)
    with pytest.raises(AssertionError, match="another demand after a run"):
        lab.handle(f.JobChanged(4.0, job))
