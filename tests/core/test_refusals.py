"""A placer that refuses a gang is asked again as soon as something has changed for it."""

from __future__ import annotations

from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.model import Cluster
from tiresias.core.plugins import Placer, placers, policies
from tiresias.core.state import JobState, State
from tiresias.testing import a_job


class LikesItNarrow(Placer):
    """Refuses pairs while more than three slots are free, and lets other jobs have these slots."""

    name = "likes-it-narrow"
    waits = True

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if job.gpus == 2 and holes.free > 3:
            return None
        return placers.make("count").place(job, holes, at, refused_since)

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        return ()


def granted(*gpus: int) -> list[int]:
    """The jobs, numbered from 1, that start in one plan on a node of six GPUs, in the order of the grants."""
    controller = Controller(State(Cluster.of(1, 6)), policies.make("fifo-skip"), LikesItNarrow())
    step = Step()
    controller.handle([f.JobSubmitted(0.0, a_job(nth, size)) for nth, size in enumerate(gpus, 1)], step)
    return [fact.job_id for fact in step.facts if isinstance(fact, f.RunGranted)]


def test_a_job_that_starts_behind_a_refused_one_may_change_the_answer_of_the_placer() -> None:
    assert granted(2, 3) == [2, 1]


def test_a_refused_job_for_which_nothing_has_changed_goes_on_waiting() -> None:
    assert granted(2, 1) == [2]
