"""Use, queue and waits over a window: compared with what a look at each instant gives."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.model import JobId, RunId
from tiresias.live.use import OTHERS, ROWS, SHOWN, Steps, Use, use_of
from tiresias.store.window import HeldSlots, JobSpan

GPU_NODE, CPU_NODE = 0, 1


def job(id: int, ready: float | None, started: float | None, ended: float | None, **more) -> JobSpan:
    fields = {"user": "ann", "tenant": "lab", "gpus": 1} | more
    return JobSpan(JobId(id), fields["user"], fields["tenant"], fields["gpus"], ready, started, ended)


def run(
    id: int, job_id: int, begin: float, end: float | None, gpus: int = 1, node: int = GPU_NODE
) -> HeldSlots:
    slots = ((node, (1 << gpus) - 1),)
    return HeldSlots(RunId(id), JobId(job_id), "ann", 1, slots, begin, begin, None, end, None)


def use(jobs: list[JobSpan], runs: list[HeldSlots], *, end: float = 100.0, steps: int = 10, by="user") -> Use:
    nodes = frozenset({GPU_NODE})
    return use_of(jobs, runs, begin=0.0, end=end, steps=steps, by=by, gpu_nodes=nodes, capacity=8)


def test_a_step_has_the_mean_of_what_was_held_in_it():
    found = use([job(1, 0.0, 15.0, 35.0, gpus=2)], [run(1, 1, 15.0, 35.0, gpus=2)])
    assert found.gpus == [0, 1, 2, 1, 0, 0, 0, 0, 0, 0]
    assert found.waiting_jobs == [1, 0.5, 0, 0, 0, 0, 0, 0, 0, 0]
    assert found.waiting_gpus == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert (found.wait.jobs, found.wait.p50_s, found.wait.p95_s) == (1, 15.0, 15.0)
    assert [waits.jobs for waits in found.waits] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert found.shares[0].gpu_s == 40.0


def test_a_job_that_was_preempted_waits_between_its_runs():
    found = use([job(1, 0.0, 0.0, None)], [run(1, 1, 0.0, 20.0), run(2, 1, 60.0, None)])
    assert found.waiting_jobs == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert found.gpus == [1, 1, 0, 0, 0, 0, 1, 1, 1, 1]


def test_what_waits_for_something_else_than_its_rank_is_not_in_the_queue():
    assert use([job(1, None, None, None)], []).waiting_jobs == [0.0] * 10


def test_runs_on_cpus_use_no_gpus():
    found = use([job(1, 0.0, 0.0, None), job(2, 0.0, 0.0, None, gpus=0)],
                [run(1, 1, 0.0, None, node=CPU_NODE), run(2, 2, 0.0, None)])  # fmt: skip
    assert found.gpus == [0.0] * 10
    assert found.waiting_jobs == [0.0] * 10, "it runs, though on CPUs"


def test_a_gpu_that_jobs_share_is_in_use_once_and_counts_for_each_of_them():
    jobs = [job(1, 0.0, 0.0, None, user="ann", gpus=2), job(2, 0.0, 20.0, None, user="bob"),
            job(3, 0.0, 20.0, None, user="bob")]  # fmt: skip
    found = use(jobs, [run(2, 2, 20.0, 60.0), run(3, 3, 20.0, 30.0), run(1, 1, 0.0, 40.0, gpus=2)])
    assert found.gpus == [2, 2, 2, 2, 1, 1, 0, 0, 0, 0]
    assert {share.who: share.gpu_s for share in found.shares} == {"ann": 80.0, "bob": 50.0}


def test_what_lies_outside_of_the_window_counts_as_far_as_it_is_inside():
    found = use([job(1, -50.0, -40.0, None)], [run(1, 1, -40.0, 200.0)])
    assert found.gpus == [1.0] * 10
    assert found.wait.jobs == 0, "it started earlier"


def test_users_beyond_the_first_are_added_up():
    jobs = [job(n, 0.0, 1.0, 50.0, user=f"user-{n:03}") for n in range(ROWS + 5)]
    runs = [run(n, n, 1.0, 50.0) for n in range(ROWS + 5)]
    found = use(jobs, runs)
    assert len(found.shares) == ROWS + 1
    assert (found.shares[-1].who, found.shares[-1].gpu_s, found.shares[-1].started_jobs) == (OTHERS, 245.0, 5)
    assert [share.gpus is not None for share in found.shares].count(True) == SHOWN
    assert use(jobs, runs, by="tenant").shares[0].gpu_s == 49.0 * (ROWS + 5)


@pytest.mark.parametrize("seed", range(20))
def test_the_means_are_those_of_a_look_at_each_instant(seed: int):
    random = Random(seed)
    steps = Steps(0.0, 10.0, 7)
    spans = []
    for _ in range(30):
        begin = random.uniform(-20, 90)
        spans.append((begin, begin + random.expovariate(0.05), random.randint(-3, 5)))
        steps.add(*spans[-1])
    found = steps.means()
    for number in range(7):
        low, high = number * 10.0, number * 10.0 + 10.0
        exact = sum(max(0.0, min(high, end) - max(low, begin)) * weight for begin, end, weight in spans) / 10
        assert found[number] == pytest.approx(max(0.0, exact), abs=1e-5)
