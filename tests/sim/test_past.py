"""A manager's own history, replayed: which jobs, for how long, at what cost, and how close it comes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tiresias.core.model import Cluster
from tiresias.placers.packed import Packed
from tiresias.sim.past import GIVEN, MEASURED, STARTS, Choice, Cost, Past, past_of, replay

FIFO, SRSF = Choice("fifo", {}), Choice("srsf", {})


def ended(id: int, at: float, gpus: int, held_s: float, finished_at: float, **more: Any) -> dict[str, Any]:
    """A row of the history of a job that was never interrupted."""
    return {
        "id": id,
        "submitted_at": at,
        "ready_at": at,
        "gpus": gpus,
        "executed_s": held_s,
        "duration_s": held_s,
        "finished_at": finished_at,
        "preemptions": 0,
        "interruptions": 0,
        "preemption_cost_s": None,
        "startup_s": 1.0,
        "user": "ann",
        "tenant": "",
        "name": "",
        "group": "",
        "priority": "normal",
        "model": "",
        "preemptible": True,
        **more,
    }


def past(*rows: dict[str, Any], **asked: Any) -> Past:
    found = past_of(rows, **asked)
    assert found is not None
    return found


def test_under_the_policy_in_use_the_replay_gives_what_was_measured():
    """First in first out on four GPUs: the short job waited for the long one."""
    found = replay(
        past(ended(2, 10.0, 1, 20.0, 120.0), ended(1, 0.0, 4, 100.0, 100.0)),
        Cluster.of(1, 4),
        FIFO,
        [SRSF],
        placer=Packed(),
    )
    in_use, oracle = found.replayed
    assert in_use.is_in_use
    assert in_use.figures == found.measured
    assert found.measured.avg_jct_s == (100 + 110) / 2
    assert found.measured.makespan_s == 120
    assert (found.fidelity.avg_jct_ratio, found.fidelity.error_max) == (1.0, 0.0)
    assert oracle.policy == "srsf"
    assert not oracle.is_in_use
    assert oracle.figures.preemptions == 1
    assert oracle.figures.avg_jct_s < found.measured.avg_jct_s


def test_the_error_of_a_replay_is_measured_per_job():
    """Both would have taken 10 s; one took twice as long, for reasons that no simulator knows."""
    found = replay(
        past(ended(1, 0.0, 1, 10.0, 10.0), ended(2, 0.0, 1, 10.0, 20.0)),
        Cluster.of(1, 2),
        FIFO,
        [],
        placer=Packed(),
    )
    assert found.fidelity.avg_jct_ratio == 20 / 30
    assert found.fidelity.error_p50 == 0.25
    assert found.fidelity.error_max == 0.5


def test_a_job_is_replayed_from_when_it_could_first_have_run():
    waited = past(ended(1, 0.0, 1, 10.0, 10.0), ended(2, 0.0, 1, 10.0, 110.0, ready_at=100.0))
    found = replay(waited, Cluster.of(1, 1), FIFO, [], placer=Packed())
    assert found.measured.avg_jct_s == 10
    assert found.replayed[0].figures.makespan_s == 110


def test_jobs_that_never_ran_or_came_too_early_are_counted_and_left_out():
    rows = [
        ended(1, 0.0, 1, 10.0, 100.0),
        ended(2, 50.0, 1, 10.0, 101.0),
        ended(3, 60.0, 1, 0.0, 70.0),
        ended(4, 70.0, 1, 5.0, 80.0, duration_s=0.0, phase="CANCELLED"),
    ]
    found = past(*rows, since_at=50.0)
    assert found.trace.jobs["id"].to_list() == ["2", "4"]
    assert (found.earlier, found.never_ran) == (1, 1)
    assert found.trace.jobs["duration_s"][1] > 0  # it held a GPU, though in vain
    assert past_of(rows, since_at=71.0) is None
    assert past_of([]) is None


def test_jobs_of_one_instant_keep_the_order_in_which_they_were_submitted():
    found = past(*(ended(id, 0.0, 1, 10.0, 10.0) for id in (10, 9, 100)))
    assert found.trace.jobs["id"].to_list() == ["9", "10", "100"]


def test_the_cost_of_a_preemption_is_the_mean_of_what_was_measured():
    rows = [
        ended(1, 0.0, 1, 10.0, 10.0, interruptions=3, preemption_cost_s=2.0),
        ended(2, 0.0, 1, 10.0, 10.0, interruptions=1, preemption_cost_s=6.0),
        ended(3, 0.0, 1, 10.0, 10.0),
    ]
    found = past(*rows)
    assert found.cost == Cost(3.0, MEASURED, 4)
    assert found.trace.jobs["preemption_cost_s"].to_list() == [2.0, 6.0, None]
    given = past(*rows, preemption_cost_s=60.0)
    assert given.cost == Cost(60.0, GIVEN)
    assert given.trace.jobs["preemption_cost_s"].to_list() == [None] * 3


def test_where_nothing_was_preempted_a_preemption_costs_what_runs_take_to_begin():
    rows = [ended(1, 0.0, 1, 9.0, 9.0, startup_s=4.0), ended(2, 0.0, 1, 9.0, 9.0, startup_s=2.0)]
    assert past(*rows).cost == Cost(3.0, STARTS, 2)
    assert past(ended(1, 0.0, 1, 9.0, 9.0, startup_s=None)).cost == Cost(0.0, STARTS, 0)


def test_a_measured_cost_is_paid_for_each_preemption_of_the_replay():
    """Shortest first stops job 1 once; it saves for 1 s and loads for 5 s."""
    stopped_once = {"interruptions": 1, "preemption_cost_s": 6.0}
    rows = [
        ended(1, 0.0, 1, 106.0, 116.0, duration_s=100.0, preemptions=1, **stopped_once),
        ended(2, 10.0, 1, 10.0, 21.0),
    ]
    found = replay(past(*rows), Cluster.of(1, 1), SRSF, [], placer=Packed())
    assert found.replayed[0].figures == found.measured
    assert found.fidelity.error_max == pytest.approx(0.0)


def test_a_job_that_may_not_be_preempted_is_not_preempted_in_the_replay():
    rows = [ended(1, 0.0, 1, 100.0, 100.0, preemptible=False), ended(2, 10.0, 1, 10.0, 110.0)]
    found = replay(past(*rows), Cluster.of(1, 1), SRSF, [], placer=Packed())
    assert found.replayed[0].figures == found.measured


def test_jobs_larger_than_the_cluster_is_now_are_left_out_of_all_figures():
    rows = [ended(1, 0.0, 8, 100.0, 100.0), ended(2, 0.0, 1, 10.0, 10.0)]
    found = replay(past(*rows), Cluster.of(1, 4), FIFO, [SRSF], placer=Packed())
    assert found.rejected == 1
    assert found.measured.avg_jct_s == 10
    assert found.fidelity.avg_jct_ratio == 1


def test_progress_is_reported_per_policy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tiresias.sim.engine.WATCH_EVERY", 1)
    monkeypatch.setattr(sys.modules["tiresias.sim.simulate"], "PROGRESS_EVERY_S", -1.0)
    seen: list[int] = []
    replay(
        past(ended(1, 0.0, 1, 10.0, 10.0)),
        Cluster.of(1, 1),
        FIFO,
        [SRSF],
        placer=Packed(),
        progress=lambda number, done, total, at: seen.append(number),
    )
    assert sorted(set(seen)) == [0, 1]
