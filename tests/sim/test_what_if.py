"""What another policy, or more GPUs, would have given: to all, and to the one who asks."""

from __future__ import annotations

from test_past import FIFO, SRSF, ended, past

from tiresias.core.model import Cluster
from tiresias.placers.packed import Packed
from tiresias.sim.what_if import Scenario, WhatIf, enlarged, what_if

ROWS = (
    ended(1, 0.0, 4, 100.0, 100.0),
    ended(2, 10.0, 4, 20.0, 120.0, user="bob"),
)


def asked(*scenarios: Scenario, user: str = "bob") -> WhatIf:
    return what_if(past(*ROWS), Cluster.of(1, 4), [Scenario(FIFO), *scenarios], Packed, user)


def test_each_scenario_says_how_long_all_and_the_asker_would_have_waited():
    found = asked(Scenario(SRSF), Scenario(FIFO, more_gpus=4))
    now, oracle, larger = found.outcomes
    assert (now.policy, now.more_gpus, now.gpus) == ("fifo", 0, 4)
    assert now.mine is not None
    assert (now.mine.jobs, now.mine.avg_wait_s, now.all.avg_wait_s) == (1, 90.0, 45.0)
    assert oracle.mine is not None
    assert oracle.mine.avg_wait_s < 1.0, "the other one only saves its work first"
    assert larger.mine is not None
    assert (larger.gpus, larger.mine.avg_wait_s) == (8, 0.0)


def test_the_replay_of_the_policy_in_use_shows_its_fidelity():
    found = asked()
    assert found.measured_mine is not None
    assert found.measured_mine.avg_wait_s == 90.0
    assert (found.fidelity.avg_jct_ratio, found.wait_ratio) == (1.0, 1.0)
    assert (found.jobs, found.rejected, found.begins_at, found.ends_at) == (2, 0, 0.0, 120.0)


def test_who_has_had_no_jobs_gets_the_figures_of_all():
    found = asked(user="eve")
    assert (found.measured_mine, found.outcomes[0].mine) == (None, None)


def test_more_gpus_are_nodes_of_the_usual_size():
    assert [node.gpus for node in enlarged(Cluster.of(3, 8), 20).nodes] == [8, 8, 8, 8, 8, 4]
    same = Cluster.of(1, 4)
    assert enlarged(same, 0) is same


def test_progress_names_the_scenario():
    seen = set()
    what_if(past(*ROWS), Cluster.of(1, 4), [Scenario(FIFO), Scenario(SRSF)], Packed, "bob",
            lambda number, done, total: seen.add((number, total)))  # fmt: skip
    assert seen <= {(0, 2), (1, 2)}
