"""Slots that carry several runs: layers, turns, pauses, memory, and what becomes of them afterwards."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import PaceRun, SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allotment
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, JobId, Node, Phase, RunId
from tiresias.core.plugins import Allocator, placers, policies
from tiresias.core.state import State
from tiresias.core.wish import Wish
from tiresias.testing import a_job, a_trace
from tiresias.testing.own_allocators import Stacked
from tiresias.testing.story import story_of

SLOT = ((0, 1),)
GIB = 1 << 30


class Scripted(Allocator):
    """Wishes what a test has put into `wanted`."""

    name = "scripted-layers"
    names_slots = True
    layers = 2

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[Allotment] = []

    def allot(self, view: Any, memory: Any, at: float) -> Wish:
        active = {job.id for job in view.jobs()}
        return Wish({each.job_id: each for each in self.wanted if each.job_id in active})


class Lab:
    """One node with two GPUs, and a Controller with an allocator that shares them."""

    def __init__(self, gpu_memory_bytes: int = 0):
        self.allocator = Scripted()
        node = Node("n0", 2, gpu_memory_bytes=gpu_memory_bytes)
        self.state = State(Cluster([node]))
        self.controller = Controller(self.state, self.allocator, placers.make("packed"))
        self.step = Step()

    def handle(self, *facts: f.Fact) -> list[Any]:
        self.step = Step()
        self.controller.handle(facts, self.step)
        if not self.refused:
            invariants.check_plan(self.controller)
        return [each for each in self.step.commands if not isinstance(each, SetTimer)]

    def want(self, *allotments: Allotment) -> None:
        self.allocator.wanted = list(allotments)

    def submit(self, at: float, *ids: int, **more: Any) -> list[Any]:
        return self.handle(*[f.JobSubmitted(at, a_job(id, 1, at, **more)) for id in ids])

    @property
    def refused(self) -> str:
        return "".join(each.problem for each in self.step.facts if isinstance(each, f.WishRefused))

    def phase(self, id: int) -> Phase:
        return self.state.jobs[JobId(id)].phase


def on(id: int, layer: int, turn: int = 0, turns: int = 1, slots: Any = SLOT) -> Allotment:
    return Allotment(JobId(id), 1, slots, None, layer, turn, turns)


def test_two_runs_share_one_slot_by_turns() -> None:
    lab = Lab()
    lab.want(on(1, 0, 0, 2), on(2, 1, 1, 2))
    commands = lab.submit(0.0, 1, 2)
    assert commands == [
        StartRun(1, 1, SLOT, False),
        PaceRun(1, 0, 2),
        StartRun(2, 2, SLOT, False),
        PaceRun(2, 1, 2),
    ]
    assert lab.state.ledger.free == 1
    lab.want(on(2, 1))
    assert lab.handle(f.RunExited(5.0, 1, f.ExitCause.FINISHED, 5.0)) == [PaceRun(2, 0, 1)]
    assert lab.state.ledger.free == 1, "the other run is still there"
    lab.handle(f.RunExited(9.0, 2, f.ExitCause.FINISHED, 9.0))
    assert lab.state.ledger.free == 2


def test_a_run_without_turns_is_paused_and_makes_no_progress() -> None:
    lab = Lab()
    lab.want(on(1, 0))
    lab.submit(0.0, 1)
    lab.handle(f.RunStarted(0.0, 1))
    lab.want(on(1, 0, turns=0), on(2, 1))
    assert PaceRun(1, 0, 0) in lab.submit(10.0, 2)
    assert lab.phase(1) is Phase.PAUSED
    job = lab.state.jobs[JobId(1)]
    assert job.progress_at(10.0) == job.progress_at(500.0) == 10.0
    assert lab.state.ledger.holders_of_slot(0, 0) == [1, 2]
    reason = lab.controller.why(JobId(1))
    assert reason is not None
    assert reason.code == "Paused"
    lab.want(on(1, 0))
    assert lab.handle(f.RunExited(20.0, 2, f.ExitCause.FINISHED, 9.0)) == [PaceRun(1, 0, 1)]
    assert lab.phase(1) is Phase.RUNNING


def test_a_run_that_is_paused_before_it_starts_is_paused_when_it_has_started() -> None:
    lab = Lab()
    lab.want(on(1, 0, turns=0))
    lab.submit(0.0, 1)
    assert lab.phase(1) is Phase.STARTING
    lab.handle(f.RunStarted(3.0, 1))
    assert lab.phase(1) is Phase.PAUSED
    assert lab.state.jobs[JobId(1)].progress_at(100.0) == 0.0


def test_a_paused_run_can_be_stopped_and_then_saves_without_waiting_for_a_turn() -> None:
    lab = Lab()
    lab.want(on(1, 0, turns=0))
    lab.submit(0.0, 1)
    lab.handle(f.RunStarted(1.0, 1))
    assert lab.handle(f.JobCancelled(2.0, JobId(1))) == [StopRun(1)]
    assert lab.phase(1) is Phase.STOPPING
    assert not lab.state.paced


def test_a_run_whose_slot_shall_be_another_one_stops_and_starts_there() -> None:
    lab = Lab()
    lab.want(on(1, 0, 0, 2), on(2, 1, 1, 2))
    lab.submit(0.0, 1, 2)
    lab.want(on(1, 0), on(2, 0, slots=((0, 2),)))
    assert lab.submit(5.0, 3) == [PaceRun(1, 0, 1), StopRun(2)]
    assert lab.handle(f.RunExited(6.0, 2, f.ExitCause.PREEMPTED, 5.0)) == [StartRun(3, 2, ((0, 2),), True)]


def test_a_layer_whose_run_is_still_saving_is_not_given_before_its_exit() -> None:
    lab = Lab()
    lab.want(on(1, 0), on(2, 1))
    lab.submit(0.0, 1, 2)
    lab.want(on(1, 0), on(3, 1))
    assert lab.submit(5.0, 3) == [StopRun(2)]
    assert lab.handle(f.RunExited(6.0, 2, f.ExitCause.PREEMPTED, 5.0)) == [StartRun(3, 3, SLOT, False)]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ([on(1, 0), on(2, 0)], "sells the slot n0:0 twice: to job 1 and to job 2"),
        ([on(1, 2)], "gives job 1 layer 2 of its slots, and they have 2"),
        ([on(1, -1)], "gives job 1 layer -1"),
        ([on(1, 0, 2, 2)], "gives job 1 the turn 2 of 2"),
        ([on(1, 0, 0, -1)], "gives job 1 the turn 0 of -1"),
    ],
)
def test_a_wish_that_oversells_a_slot_is_refused(wanted: list[Allotment], problem: str) -> None:
    lab = Lab()
    lab.want(*wanted)
    assert lab.submit(0.0, 1, 2) == []
    assert problem in lab.refused


def test_runs_share_a_slot_only_as_far_as_its_memory_goes() -> None:
    lab = Lab(gpu_memory_bytes=16 * GIB)
    lab.want(on(1, 0), on(2, 1))
    small, large = Demand(1, gpu_memory_bytes=6 * GIB), Demand(1, gpu_memory_bytes=12 * GIB)
    lab.handle(f.JobSubmitted(0.0, a_job(1, demand=small)), f.JobSubmitted(0.0, a_job(2, demand=large)))
    assert "jobs 1, 2 share the slot n0:0, whose memory is 17179869184 bytes" in lab.refused
    lab.want(on(1, 0), on(3, 1))
    lab.handle(f.JobSubmitted(1.0, a_job(3, demand=small)))
    assert not lab.refused
    assert len(lab.state.runs) == 2


def test_a_job_that_does_not_state_its_memory_shares_no_gpu_whose_memory_is_known() -> None:
    lab = Lab(gpu_memory_bytes=16 * GIB)
    lab.want(on(1, 0), on(2, 1))
    lab.submit(0.0, 1, 2)
    assert "a job that does not state its need may use all of it" in lab.refused


def test_memory_that_a_saving_run_still_holds_is_waited_for() -> None:
    lab = Lab(gpu_memory_bytes=16 * GIB)
    need = Demand(1, gpu_memory_bytes=8 * GIB)
    lab.want(on(1, 0), on(2, 1))
    lab.handle(*[f.JobSubmitted(0.0, a_job(id, demand=need)) for id in (1, 2)])
    assert len(lab.state.runs) == 2
    lab.allocator.layers = lab.state.ledger.layers = 3
    lab.want(on(1, 0), on(3, 2))
    assert lab.handle(f.JobSubmitted(5.0, a_job(3, submitted_at=5.0, demand=need))) == [StopRun(2)]
    assert [type(each) for each in lab.handle(f.RunExited(6.0, 2, f.ExitCause.PREEMPTED, 1.0))] == [StartRun]


def test_the_turns_of_a_run_that_may_not_be_stopped_may_change_and_nothing_else() -> None:
    lab = Lab()
    lab.want(on(1, 0))
    lab.submit(0.0, 1, preemptible=False)

    def allot(view: Any, memory: Any, at: float) -> Wish:
        wish = Wish({each.job_id: each for each in lab.allocator.wanted})
        return wish

    lab.allocator.allot = allot  # type: ignore[method-assign]
    lab.want(on(1, 0, 0, 2), on(2, 1, 1, 2))
    assert lab.submit(5.0, 2) == [PaceRun(1, 0, 2), StartRun(2, 2, SLOT, False), PaceRun(2, 1, 2)]
    lab.want(on(1, 1, 0, 2), on(2, 1, 1, 2))
    lab.submit(6.0, 3)
    assert "names job 1 anew, whose run may not be stopped now" in lab.refused


def test_under_another_policy_nobody_takes_turns_any_more() -> None:
    lab = Lab()
    lab.want(on(1, 0, 0, 2), on(2, 1, 1, 2))
    lab.submit(0.0, 1, 2)
    controller = Controller(lab.state, policies.make("fifo-skip"), placers.make("packed"))
    step = Step()
    controller.handle([f.TimerFired(5.0)], step)
    paced = [each for each in step.commands if isinstance(each, PaceRun)]
    assert paced == [PaceRun(1, 0, 1), PaceRun(2, 0, 1)]
    assert not lab.state.paced
    invariants.check_plan(controller)


def test_a_trial_leaves_the_layers_as_they_were() -> None:
    rng = Random(3)
    ledger = Ledger(Cluster.of(2, 4))
    ledger.layers = 3
    held: list[int] = []
    for number in range(1, 400):
        before = (list(ledger.free_slots), ledger.free, ledger.capacity, dict(ledger.allocations))
        mark = ledger.checkpoint()
        for extra in range(3):
            if held and rng.random() < 0.5:
                run = RunId(rng.choice(held))
                if run in ledger.allocations:
                    ledger.release(run)
            else:
                slots = ((rng.randrange(2), rng.randrange(1, 16)),)
                layer = rng.randrange(3)
                if ledger.is_open(slots, layer, None):
                    ledger.take(RunId(-10 * number - extra), slots, layer)
        ledger.rollback(mark)
        assert before == (list(ledger.free_slots), ledger.free, ledger.capacity, dict(ledger.allocations))
        invariants._check_ledger(ledger)
        slots, layer = ((rng.randrange(2), rng.randrange(1, 16)),), rng.randrange(3)
        if ledger.is_open(slots, layer, None):
            ledger.take(RunId(number), slots, layer)
            held.append(number)
        elif held:
            ledger.release(RunId(held.pop(rng.randrange(len(held)))))
        if rng.random() < 0.1:
            (ledger.withdraw if rng.random() < 0.5 else ledger.restore)("n1")
        invariants._check_ledger(ledger)


def test_two_jobs_in_turns_take_twice_as_long_and_a_little_more() -> None:
    trace = a_trace([(0.0, 1, 980.0), (0.0, 1, 980.0)])
    story = story_of(trace, "1x1", Stacked)
    assert story.result.jobs["finished_at"].to_list() == [2000.0, 2000.0]
    assert sum(isinstance(fact, f.RunPaced) for fact in story.facts) == 2, "no fact per slice"


class PacksAll(Allocator):
    """Two jobs on the slot at once."""

    name = "packs-all"
    names_slots = True
    layers = 2

    def allot(self, view: Any, memory: Any, at: float) -> Wish:
        wish = Wish()
        open_layers = {0, 1}
        for job in sorted(view.jobs(), key=lambda job: (job.gpu_run is None, job.id)):
            layer = min(open_layers) if job.gpu_run is None and open_layers else None
            if job.gpu_run is not None:
                layer = job.gpu_run.layer
            if layer is not None:
                open_layers.discard(layer)
                wish.give(job, SLOT, layer=layer)
        return wish


def test_packed_trainings_that_leave_the_gpu_idle_lose_little_and_others_much() -> None:
    jobs = [(0.0, 1, 1000.0), (0.0, 1, 1000.0), (0.0, 1, 1000.0), (0.0, 1, 1000.0)]
    took_s = {}
    for model in ("vae", "resnet50", ""):
        story = story_of(a_trace(jobs, model=[model] * 4), "1x1", PacksAll)
        took_s[model] = story.result.jobs["finished_at"][0]
    assert took_s["vae"] < 1100.0
    assert 2000.0 < took_s["resnet50"] < took_s[""] < 2400.0
