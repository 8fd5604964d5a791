"""The index of jobs whose runs are stopped after a while: those with a time limit, and preflights."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tiresias.core.model import JobId
from tiresias.live.managed_jobs import ManagedJob, ManagedJobs
from tiresias.live.submission import Submission


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
        wanted = {
            id
            for id, job in jobs.items()
            if job.spec.time_limit_s is not None or job.preflight_of is not None
        }
        assert set(jobs.timed) == wanted
