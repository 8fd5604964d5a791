"""Wishes of allocators: what is applied, what is refused, what survives, what users are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core.commands import SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allotment
from tiresias.core.model import Cluster, JobId, Phase
from tiresias.core.plugins import Allocator, placers
from tiresias.core.state import State
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish, WishChange
from tiresias.store import memories
from tiresias.testing import a_job, a_trace
from tiresias.testing.own_allocators import Leased
from tiresias.testing.story import story_of

Answer = Callable[[AllotView, float], Any]


class Scripted(Allocator):
    """Answers what a test wants it to."""

    name = "scripted"

    def __init__(self, answer: Answer, *, names_slots: bool = False):
        super().__init__()
        self.answer = answer
        self.names_slots = names_slots  # type: ignore[misc]

    def allot(self, view: AllotView, memory: Any, at: float) -> Any:
        return self.answer(view, at)


class Lab:
    """A Controller with an allocator, four GPUs on one node, and the commands of the last step."""

    def __init__(self, answer: Answer, **how: Any):
        self.allocator = Scripted(answer, **how)
        self.controller = Controller(State(Cluster.of(1, 4)), self.allocator, placers.make("packed"))
        self.step = Step()

    def handle(self, *facts: f.Fact) -> list[Any]:
        self.step = Step()
        self.controller.handle(facts, self.step)
        return [each for each in self.step.commands if not isinstance(each, SetTimer)]

    def submit(self, at: float, *jobs: tuple[int, int]) -> list[Any]:
        return self.handle(*[f.JobSubmitted(at, a_job(id, gpus, at)) for id, gpus in jobs])

    @property
    def refused(self) -> str:
        return "".join(each.problem for each in self.step.facts if isinstance(each, f.WishRefused))


def wish(*allotments: Allotment, **more: Any) -> Wish:
    return Wish({each.job_id: each for each in allotments}, **more)


def one(id: int, gpus: int, slots: Any = None, until: float | None = None) -> Allotment:
    return Allotment(JobId(id), gpus, slots, until)


def test_the_difference_between_two_wishes_becomes_stops_and_starts():
    wanted = [one(1, 4)]
    lab = Lab(lambda view, at: wish(*wanted))
    assert [each.job_id for each in lab.submit(0.0, (1, 4), (2, 2))] == [1]
    wanted[:] = [one(2, 2)]
    assert lab.submit(5.0, (3, 1)) == [StopRun(1)]
    started = lab.handle(f.RunExited(9.0, 1, f.ExitCause.PREEMPTED, 5.0))
    assert [(type(each), each.job_id) for each in started] == [(StartRun, 2)]


def test_the_wish_is_a_fact_of_what_has_changed_only():
    lab = Lab(lambda view, at: wish(*[one(job.id, job.gpus) for job in view.jobs()]))
    lab.submit(0.0, (1, 1))
    lab.submit(1.0, (2, 1))
    assert [each for each in lab.step.facts if isinstance(each, f.WishChanged)] == [
        f.WishChanged(1.0, "scripted", (one(2, 1),), ())
    ]


@pytest.mark.parametrize("answer", [wish, lambda *given: WishChange(given)])
def test_the_order_in_which_an_allocator_names_jobs_decides_nothing(answer):
    lab = Lab(lambda view, at: answer(one(3, 1), one(1, 2), one(2, 1)))
    started = lab.submit(0.0, (1, 2), (2, 1), (3, 1))
    [changed] = [each for each in lab.step.facts if isinstance(each, f.WishChanged)]
    assert [each.job_id for each in changed.given] == [1, 2, 3]
    assert [each.job_id for each in started] == [1, 2, 3]


@pytest.mark.parametrize(
    ("bad", "names_slots", "problem"),
    [
        (wish(one(1, 2), one(2, 3)), False, "it gives jobs 5 GPUs (the last one is job 2), and there are 4"),
        (wish(one(1, 1)), False, "splits the gang of job 1: it gives 1 GPUs, and the job needs 2"),
        (wish(one(9, 1)), False, "it names job 9, which has ended or never was"),
        (wish(one(6, 0)), False, "it names job 6, which is a job without GPUs"),
        (wish(one(1, 2, ((0, 3),))), False, "it names slots for job 1"),
        (wish(one(1, 2)), True, "it names no slots for job 1"),
        (wish(one(1, 2, ((0, 3),)), one(2, 3, ((0, 14),))), True, "5 GPUs"),
        (wish(one(1, 2, ((0, 3),)), one(3, 1, ((0, 2),))), True, "sells the slot n0:1 twice: to job 1 and"),
        (wish(one(1, 2, ((0, 48),))), True, "gives job 1 the slot n0:4, which is not in service"),
        (wish(one(1, 2, ((0, 1),))), True, "splits the gang of job 1: it names 1 slots"),
        (wish(one(1, 2, until=float("inf"))), False, "the lease of job 1 ends at inf, which is no instant"),
        (WishChange(withdrawn=[JobId(2)]), False, "withdraws job 2, to which the wish before gives nothing"),
    ],
)
def test_nothing_of_a_bad_wish_is_applied_and_the_one_before_stands(
    bad: Any, names_slots: bool, problem: str
):
    good = wish(one(3, 1, ((0, 8),) if names_slots else None))
    answers = [good]
    lab = Lab(lambda view, at: answers[-1], names_slots=names_slots)
    assert [each.job_id for each in lab.submit(0.0, (1, 2), (2, 3), (3, 1), (6, 0))] == [3, 6]
    answers.append(bad)
    assert lab.submit(1.0, (4, 1)) == []
    assert problem in lab.refused
    assert lab.controller.state.wish is not None
    assert lab.controller.state.wish.jobs == good.jobs
    assert lab.controller.state.jobs[JobId(3)].phase is Phase.STARTING
    answers.append(wish(good.jobs[JobId(3)], one(1, 2, ((0, 3),) if names_slots else None)))
    assert [each.job_id for each in lab.submit(2.0, (5, 1))] == [1], "the next good wish is applied"


def test_a_leased_run_is_taken_and_is_not_stopped_before_its_lease_ends():
    rooms = []

    def answer(view: AllotView, at: float) -> Wish:
        rooms.append(view.room)
        return wish(one(1, 4, until=100.0)) if at < 1 else Wish()

    lab = Lab(answer)
    lab.submit(0.0, (1, 4))
    assert lab.submit(50.0, (2, 1)) == [], "the wish is empty, but the run is leased"
    assert rooms[-1] == 0
    assert lab.handle(f.TimerFired(100.0)) == [StopRun(1)]


def test_the_timer_is_set_to_the_instant_at_which_it_wants_to_be_asked_again():
    asked = []

    def answer(view: AllotView, at: float) -> Wish:
        asked.append(at)
        return Wish(again_at=at + 60)

    lab = Lab(answer)
    lab.submit(0.0, (1, 1))
    assert SetTimer(60.0) in lab.step.commands
    lab.handle(f.TimerFired(60.0))
    assert asked == [0.0, 60.0]


def test_a_run_on_other_slots_than_the_wish_names_is_moved():
    slots = [((0, 1),)]
    lab = Lab(lambda view, at: wish(one(1, 1, slots[-1])), names_slots=True)
    lab.submit(0.0, (1, 1))
    slots.append(((0, 8),))
    assert lab.submit(1.0, (2, 1)) == [StopRun(1)]
    started = lab.handle(f.RunExited(2.0, 1, f.ExitCause.PREEMPTED, 1.0))
    assert [each.allocation for each in started] == [((0, 8),)]


def test_an_answer_that_is_no_wish_is_a_failure_of_the_plug_in():
    lab = Lab(lambda view, at: {1: 2})
    with pytest.raises(Exception, match="return a Wish or a WishChange"):
        lab.submit(0.0, (1, 1))
    assert lab.controller.failure is not None
    assert lab.controller.failure.name == "scripted"


def test_the_explanation_names_the_jobs_that_have_the_gpus():
    lab = Lab(lambda view, at: wish(one(1, 4)))
    lab.submit(0.0, (1, 4), (2, 2))
    reason = lab.controller.why(JobId(2))
    assert reason is not None
    assert reason.code == "NotAllotted"
    assert reason.text == "the GPUs go to other jobs: 1 job has 4 of 4 GPUs, it needs 2"


def test_the_wish_and_the_shares_outlive_a_restart():
    lab = Lab(lambda view, at: wish(one(1, 4, until=100.0), again_at=60.0))
    lab.submit(0.0, (1, 4))
    lab.handle(f.SharesSet(1.0, {"a": 3.0, "b": 1.0}))
    state = lab.controller.state
    found = memories.read(lab.allocator, memories.dump(lab.allocator, state))
    assert (found.wish, found.shares) == (state.wish, {"a": 3.0, "b": 1.0})


def test_the_wish_of_one_allocator_is_nothing_to_another():
    lab = Lab(lambda view, at: wish(one(1, 4)))
    lab.submit(0.0, (1, 4))
    Controller(lab.controller.state, Leased(), placers.make("packed"))
    assert lab.controller.state.wish is None


def test_a_simulation_says_that_wishes_were_refused():
    trace = a_trace([(0.0, 2, 10.0), (1.0, 1, 10.0)])
    story = story_of(trace, "1x4", Scripted(lambda view, at: wish(one(1, 99))))
    assert any("wishes of scripted were refused" in note for note in story.result.notes), story.result.notes
