"""Jobs in queue for a limit, next to the definition worked out the plain way."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.model import Demand, Job, JobId
from tiresias.core.state import JobState
from tiresias.live.limit_queue import LimitQueue


def a_job(id: int, gpus: int, runs: int = 0) -> JobState:
    job = JobState(Job(JobId(id), Demand(gpus), 0.0))
    job.runs = runs
    return job


def plainly_over(limit: int, holding: dict[int, JobState], waiting: dict[int, JobState]) -> set[int]:
    """Who does not fit, by the definition."""
    left, over = limit - sum(job.gpus for job in holding.values()), set()
    for job in sorted(waiting.values(), key=lambda job: (not job.runs, job.id)):
        if job.gpus > left:
            over.add(job.id)
        else:
            left -= job.gpus
    return over


def test_a_job_that_has_run_is_ahead_and_one_that_does_not_fit_is_skipped() -> None:
    queue = LimitQueue(4)
    queue.put(a_job(1, 2), 2, holds=True)
    queue.put(a_job(2, 3), 3, holds=False)
    queue.put(a_job(3, 2), 2, holds=False)
    assert [queue.is_over(JobId(id)) for id in (1, 2, 3)] == [False, True, False]
    queue.put(a_job(4, 2, runs=1), 2, holds=False)
    assert [queue.is_over(JobId(id)) for id in (3, 4)] == [True, False]
    assert not queue.has_room(1)
    queue.leave(JobId(1))
    assert [queue.is_over(JobId(id)) for id in (2, 3, 4)] == [True, False, False]
    assert set(queue.changed()) >= {3, 4}
    assert queue.changed() == []


def test_jobs_that_hold_more_than_the_limit_keep_it_and_no_further_job_gets_a_share() -> None:
    queue = LimitQueue(4)
    for id in (1, 2):
        queue.put(a_job(id, 2), 2, holds=True)
    queue.set_limit(1)
    queue.put(a_job(3, 1), 1, holds=False)
    assert queue.is_over(JobId(3))
    queue.leave(JobId(1))
    assert queue.is_over(JobId(3))
    queue.leave(JobId(2))
    assert not queue.is_over(JobId(3))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_line_is_as_the_definition_says(seed: int) -> None:
    rng = Random(seed)
    queue, limit = LimitQueue(8), 8
    holding: dict[int, JobState] = {}
    waiting: dict[int, JobState] = {}
    told: dict[int, bool] = {}
    for step in range(300):
        everybody = [*holding, *waiting]
        id = rng.choice(everybody) if everybody and rng.random() < 0.7 else rng.randint(1, 120)
        job = holding.pop(id, None) or waiting.pop(id, None) or a_job(id, rng.randint(1, 4))
        match rng.choice(("wait", "wait", "hold", "leave", "limit")):
            case "wait":
                waiting[id] = job
                queue.put(job, job.gpus, holds=False)
            case "hold":
                job.runs += 1
                holding[id] = job
                queue.put(job, job.gpus, holds=True)
            case "leave":
                queue.leave(JobId(id))
            case "limit":
                queue.leave(JobId(id))
                limit = rng.randint(0, 16)
                queue.set_limit(limit)
        over = plainly_over(limit, holding, waiting)
        assert {each for each in waiting if queue.is_over(JobId(each))} == over, (seed, step)
        assert len(queue) == len(holding) + len(waiting)
        for each in queue.changed():
            told[each] = queue.is_over(each)
        assert all(told[each] == (each in over) for each in waiting), (seed, step, "not told of a change")
