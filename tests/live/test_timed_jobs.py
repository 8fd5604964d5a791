"""Runs that are stopped after a while: those of jobs with a time limit, and preflights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tiresias.core.model import INFINITY, JobId
from tiresias.live.clock import Clock
from tiresias.live.managed_jobs import ManagedJob, ManagedJobs
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller, Submission
from tiresias.live.time_limits import TimeLimits
from tiresias.testing.still import still_manager

ANN = Caller("ann", is_admin=True)


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


def test_it_has_every_job_with_a_limit_and_no_other_whatever_changes() -> None:
    rng, jobs = Random(3), ManagedJobs()
    for number in range(400):
        if not jobs or rng.random() < 0.4:
            limit_s = rng.choice((None, 60.0))
            preflight_of = rng.choice((None, None, JobId(1)))
            spec = Submission(command=("train",), cwd="/", time_limit_s=limit_s)
            jobs.add(JobId(number), ManagedJob(spec, preflight_of=preflight_of))
        else:
            id = rng.choice(list(jobs))
            what = rng.random()
            if what < 0.3:
                jobs.remove(id)
            elif what < 0.6:
                jobs.change(id, spec=replace(jobs[id].spec, time_limit_s=rng.choice((None, 5.0))))
            elif what < 0.8:
                jobs.change(id, preflight_of=rng.choice((None, JobId(1))))
            else:
                jobs.change(id, retries_used=1)
        assert set(jobs.limited) == {id for id, job in jobs.items() if job.spec.time_limit_s is not None}
        assert set(jobs.preflights) == {id for id, job in jobs.items() if job.preflight_of is not None}
        assert set(jobs.retimed) <= set(jobs.limited)


def first_limit(manager: Manager) -> float:
    """Found by walking all runs."""
    found = [manager.runs.limits.expires_at(run) for run in manager.state.runs.values()]
    return min(found, default=INFINITY)


def test_the_next_limit_is_that_of_a_walk_over_all_runs_whatever_happens(tmp_path: Path) -> None:
    rng, ended = Random(5), 0
    ticks = Ticks()
    with still_manager(tmp_path, 8, clock=Clock(wall=ticks, steady=ticks)) as (manager, executor):

        def ask(limit_s: float | None) -> list[JobId]:
            spec = Submission(("train",), str(tmp_path), gpus=rng.choice((1, 2, 4)), time_limit_s=limit_s)
            return manager.requests.submit(ANN, [spec])

        def settle() -> None:
            manager.settle()
            manager.flush()
            manager.poll()
            manager.flush()

        for _ in range(400):
            ticks.at += rng.expovariate(0.2)
            jobs, what = list(manager.state.jobs), rng.random()
            if what < 0.4 or not jobs:
                ask(rng.choice((None, 20.0, 60.0, 90.0)))
            elif what < 0.6:
                limit_s = rng.choice((None, 30.0, 200.0))
                manager.requests.change(ANN, rng.choice(jobs), {"time_limit_s": limit_s})
            elif what < 0.7:
                manager.requests.cancel(ANN, rng.choice(jobs))
            elif what < 0.8 and manager.state.runs:
                manager.requests.requeue(ANN, rng.choice(list(manager.state.runs.values())).job_id)
            elif manager.state.runs:
                executor.finish(rng.choice(list(manager.state.runs)))
            assert manager.runs.limits.next_at == first_limit(manager)
            late = {
                run.job_id
                for run in manager.state.runs.values()
                if manager.runs.limits.expires_at(run) <= ticks.at
            }
            manager.tick()
            assert manager.runs.limits.next_at == first_limit(manager) > ticks.at
            ended += len(late)
            settle()
    assert ended > 20


def test_a_manager_with_many_runs_looks_at_few_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    expires_at = TimeLimits.expires_at
    monkeypatch.setattr(
        TimeLimits, "expires_at", lambda self, run: looked.append(run) or expires_at(self, run)
    )
    ticks = Ticks()
    with still_manager(tmp_path, 256, clock=Clock(wall=ticks, steady=ticks)) as (manager, executor):
        manager.requests.submit(ANN, [Submission(("train",), str(tmp_path), time_limit_s=900.0)] * 300)
        manager.flush()
        manager.poll()
        manager.flush()
        assert len(manager.state.runs) == 256
        assert manager.next_due_at < INFINITY
        looked.clear()
        for run_id in list(manager.state.runs)[:10]:
            ticks.at += 1.0
            executor.finish(run_id)
            manager.poll()
            manager.tick()
            manager.flush()
            assert manager.next_due_at > ticks.at
    assert len(looked) < 100  # 2,560 runs were there, and each was looked at several times
