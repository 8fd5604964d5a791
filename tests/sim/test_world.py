"""What a preemption costs, and how fast runs go: the ground truth of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.facts import ExitCause
from tiresias.core.ledger import Ledger
from tiresias.core.model import JobId, RunId
from tiresias.sim.simulate import simulate
from tiresias.sim.world import World
from tiresias.testing import Story, a_job, a_trace, story_of

PREEMPTED_AT_50 = [(0.0, 4, 100.0), (50.0, 4, 10.0)]
QUEUES = {"queues": "1000000"}


def preempted(
    cost_s: float, rows: list[tuple[float, int, float]] = PREEMPTED_AT_50, **columns: list[object]
) -> Story:
    """The first job is preempted by each of the others, which are urgent."""
    urgent = ["normal", *["high"] * (len(rows) - 1)]
    trace = a_trace(rows, priority=urgent, **columns)
    return story_of(trace, "1x4", "tiresias-l", options=QUEUES, placer="count", preemption_cost_s=cost_s)


def test_a_sixth_of_the_cost_is_saving_on_the_old_slots_the_rest_loading_on_the_new() -> None:
    story = preempted(60.0)
    first, second = story.result.jobs.iter_rows(named=True)
    assert second["first_started_at"] == 60, "10 s of saving"
    assert second["finished_at"] == 70
    assert first["finished_at"] == 70 + 50 + 50, "50 s of loading, 50 s of work"
    assert story.result.lost_gpu_s == 60 * 4


def test_service_counts_saving_and_loading() -> None:
    first, second = preempted(60.0).result.jobs.iter_rows(named=True)
    assert first["service_gpu_s"] == (100 + 60) * 4
    assert second["service_gpu_s"] == 10 * 4
    assert first["wait_s"] == 10


def test_the_facts_of_a_preemption() -> None:
    facts = [
        fact
        for fact in preempted(60.0).facts
        if isinstance(fact, f.RunGranted | f.RunStarted | f.RunRevoked | f.RunExited)
    ]
    all_four = ((0, 0b1111),)
    assert facts == [
        f.RunGranted(0.0, RunId(1), JobId(0), all_four),
        f.RunStarted(0.0, RunId(1)),
        f.RunRevoked(50.0, RunId(1), f.Revocation(f.Rule.PRIORITY, JobId(1), 1, 1)),
        f.RunExited(60.0, RunId(1), ExitCause.PREEMPTED, 50.0),
        f.RunGranted(60.0, RunId(2), JobId(1), all_four),
        f.RunStarted(60.0, RunId(2)),
        f.RunExited(70.0, RunId(2), ExitCause.FINISHED, 10.0),
        f.RunGranted(70.0, RunId(3), JobId(0), all_four),
        f.RunStarted(120.0, RunId(3)),
        f.RunExited(170.0, RunId(3), ExitCause.FINISHED, 100.0),
    ]


def test_no_cost() -> None:
    story = preempted(0.0)
    assert story.result.jobs["finished_at"].to_list() == [110, 60]
    assert story.result.jobs["preemptions"].to_list() == [1, 0]
    assert story.result.lost_gpu_s == 0


def test_what_the_trace_says_of_a_job_wins() -> None:
    story = preempted(60.0, preemption_cost_s=[120.0, 0.0])
    assert story.result.jobs["finished_at"].to_list() == [230, 80]
    assert story.result.lost_gpu_s == 120 * 4


def test_a_job_of_which_the_trace_says_nothing_costs_what_the_others_do() -> None:
    story = preempted(60.0, preemption_cost_s=[None, 120.0])
    assert story.result.jobs["finished_at"].to_list() == [170, 70]


def test_a_cost_of_zero_switches_off_what_the_trace_says() -> None:
    story = preempted(0.0, preemption_cost_s=[120.0, 120.0])
    assert story.result.jobs["finished_at"].to_list() == [110, 60]
    assert story.result.lost_gpu_s == 0


def test_preempted_while_it_loads() -> None:
    """No work is lost or done; it saves all the same, and loads from the beginning the next time."""
    story = preempted(60.0, [*PREEMPTED_AT_50, (80.0, 4, 10.0)])
    first, _, third = story.result.jobs.iter_rows(named=True)
    assert third["first_started_at"] == 90
    assert first["finished_at"] == 100 + 50 + 50
    assert first["preemptions"] == 2
    assert story.result.lost_gpu_s == (10 + 10 + 10 + 50) * 4


def test_a_job_finishes_rather_than_being_preempted_at_its_last_instant() -> None:
    story = preempted(60.0, [(0.0, 4, 50.0), (50.0, 4, 10.0)])
    assert story.result.jobs["preemptions"].to_list() == [0, 0]
    assert story.result.jobs["finished_at"].to_list() == [50, 60]


def test_less_work_is_left_than_the_clock_can_tell() -> None:
    trace = a_trace([(0.0, 1, 1.0000000001), (1.0, 1, 1e8)], priority=["normal", "high"])
    result = simulate(trace, "1x1", "tiresias-l", options=QUEUES)
    assert result.jobs["finished_at"].to_list() == pytest.approx([100000061.0, 100000011.0])


class SharedNodes:
    """Runs that share a node with another go at half speed."""

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> Mapping[RunId, float]:
        on_node: dict[int, set[RunId]] = {}
        for run_id, allocation in ledger.allocations.items():
            for node, _ in allocation:
                on_node.setdefault(node, set()).add(run_id)
        return {
            run_id: 0.5 if any(len(on_node[node]) > 1 for node, _ in allocation) else 1.0
            for run_id, allocation in ledger.allocations.items()
        }


def shared(rows: list[tuple[float, int, float]], policy: str, cost_s: float = 0.0, nodes: int = 1) -> Story:
    settings = {"placer": "packed", "preemption_cost_s": cost_s, "speed_model": SharedNodes()}
    return story_of(a_trace(rows), f"{nodes}x4", policy, **settings)


def test_ends_are_timed_anew_when_runs_come_and_go() -> None:
    story = shared([(0.0, 2, 100.0), (50.0, 2, 100.0)], "fifo")
    assert story.result.jobs["finished_at"].to_list() == [150, 200]
    facts = [fact for fact in story.facts if isinstance(fact, f.RunProgressed)]
    assert facts == [
        f.RunProgressed(50.0, RunId(1), 50.0, 0.5),
        f.RunProgressed(50.0, RunId(2), 0.0, 0.5),
        f.RunProgressed(150.0, RunId(2), 50.0, 1.0),
    ]


def test_a_run_that_is_alone_on_its_node_goes_at_full_speed() -> None:
    story = shared([(0.0, 2, 100.0), (50.0, 4, 100.0)], "fifo", nodes=2)
    assert story.result.jobs["finished_at"].to_list() == [100, 150]


def test_service_is_time_on_the_gpus_not_work() -> None:
    story = shared([(0.0, 2, 100.0), (50.0, 2, 100.0)], "fifo")
    assert story.result.jobs["service_gpu_s"].to_list() == [300, 300]


def test_srsf_sees_how_fast_runs_go() -> None:
    """At 100 s the first has done 50 s of work: 100 GPU-s are left, more than the 80 of the third."""
    story = shared([(0.0, 2, 100.0), (0.0, 2, 300.0), (100.0, 4, 20.0)], "srsf")
    assert story.result.jobs["first_started_at"].to_list() == [0, 0, 100]
    assert story.result.jobs["preemptions"].to_list() == [1, 1, 0]
    assert story.result.jobs["finished_at"].to_list() == [220, 420, 120]


def test_loading_takes_as_long_at_any_speed() -> None:
    story = shared([(0.0, 2, 100.0), (0.0, 2, 300.0), (100.0, 4, 20.0)], "srsf", cost_s=60.0)
    assert story.result.jobs["finished_at"].to_list() == [280, 480, 130]
    started = {fact.run_id: fact for fact in story.facts if isinstance(fact, f.RunStarted)}
    assert started[RunId(4)].at == started[RunId(5)].at == 180
    assert started[RunId(4)].speed == started[RunId(5)].speed == 0.5


def test_the_world_answers_commands() -> None:
    world = World(60.0)
    job = world.jobs[JobId(1)] = a_job(1, 2, duration_s=100.0)
    assert world.start(StartRun(RunId(1), job.id, ((0, 3),), resumes=False), 0.0) == f.RunStarted(
        0.0, RunId(1)
    )
    world.stop(StopRun(RunId(1)), 40.0)
    facts = [fact for due in sorted(world.heap, key=lambda due: due[:3]) if (fact := world.happen(due))]
    assert facts == [f.RunExited(50.0, RunId(1), ExitCause.PREEMPTED, 40.0)]
    assert world.start(StartRun(RunId(2), job.id, ((0, 3),), resumes=True), 50.0) is None, "it loads first"
    assert world.lost_gpu_s == 20


def test_a_job_that_does_not_save_begins_anew_and_is_known_from_then_on() -> None:
    """It loses 50 s of 4 GPUs. It neither saves nor loads anything, so the other job starts at once."""
    story = preempted(60.0, resumable=[False, None])
    first, second = story.result.jobs.iter_rows(named=True)
    assert second["first_started_at"] == 50
    assert first["finished_at"] == 60 + 100, "all of its work again"
    assert story.result.lost_gpu_s == 50 * 4
    assert [fact for fact in story.facts if isinstance(fact, f.WorkLost)] == [
        f.WorkLost(50.0, JobId(0), 50.0, 4)
    ]


def test_it_loses_its_work_once_and_is_not_preempted_a_second_time() -> None:
    """All four GPUs are its share, so the third job waits for it; without protection it loses them again."""
    rows = [(0.0, 4, 100.0), (50.0, 4, 10.0), (100.0, 4, 10.0)]
    trace = a_trace(rows, priority=["normal", "high", "high"], resumable=[False, None, None])
    ends = {}
    for protect in ("1", "0"):
        story = story_of(trace, "1x4", "tiresias-l", options=QUEUES | {"protect": protect}, placer="count")
        ends[protect] = story.result.jobs["finished_at"].to_list()
    assert ends["1"] == [160, 60, 170]
    assert ends["0"] == [210, 60, 110]
