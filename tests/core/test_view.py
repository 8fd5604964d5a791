"""What plug-ins and explanations read: the picture of the State, and what a job's submission says."""

from __future__ import annotations

from tiresias.core.model import Demand, Job, JobId
from tiresias.core.state import JobState
from tiresias.testing import Harness


def test_a_view_shows_the_state_as_it_is_now() -> None:
    lab = Harness("fifo-skip", gpus=4, nodes=2).running("a", gpus=6, service_s=10).pending("b", gpus=4)
    lab.plan()
    lab.wait(5)
    lab.submit("c", gpus=1)
    view = lab.controller.view
    assert (view.at, view.gpus, view.free_gpus) == (5.0, 8, 1)
    assert [node.gpus for node in view.nodes] == [4, 4]
    assert [lab.name(job.id) for job in view.running()] == ["a", "c"]
    assert [lab.name(job.id) for job in view.waiting()] == ["b"]
    assert view.job(JobId(1)) is lab.job("a")
    assert view.job(JobId(9)) is None


def test_a_job_knows_what_was_submitted() -> None:
    asked = Job(JobId(1), Demand(2), 5.0, user="ann", tenant="lab", group="search", model="vgg16")
    job = JobState(asked)
    assert (job.user, job.tenant, job.group, job.model) == ("ann", "lab", "search", "vgg16")
