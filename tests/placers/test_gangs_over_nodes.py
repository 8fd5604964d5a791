"""Gangs that ask for a number of nodes: which nodes each placer chooses, and how long they wait for them."""

from __future__ import annotations

import pytest

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Node, RunId
from tiresias.core.plugins import placers
from tiresias.core.state import JobState
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness
from tiresias.testing.builders import a_job, a_trace

#           rack: a a a  b b b b
FREE = (4, 2, 2, 3, 2, 1, 2)
RACKS = "aaabbbb"


def ledger() -> Ledger:
    nodes = [Node(f"n{i}", 4, rack=rack) for i, rack in enumerate(RACKS)]
    made = Ledger(Cluster(nodes))
    for node, free in enumerate(FREE):
        if free < 4:
            made.take(RunId(node + 1), ((node, (1 << (4 - free)) - 1),))
    return made


def placed(placer: str, demand: Demand, **options: object) -> Allocation | None:
    holes = ledger().open_to(demand)
    return placers.make(placer, options).place(JobState(a_job(1, demand=demand)), holes, 10.0, 0.0)


@pytest.mark.parametrize(
    ("placer", "nodes"),
    [
        ("count", {0, 1}),  # the first
        ("packed", {1, 2}),  # the best fit in the fullest rack that has two such nodes
        ("consolidated", {1, 2}),
        ("relaxing", {1, 2}),
        ("rack-local", {0, 1}),  # the emptiest of the emptiest rack
        ("spread", {0, 3}),  # the emptiest anywhere
        ("buddy", {1, 2}),  # the tightest blocks of two
    ],
)
def test_each_placer_chooses_the_nodes_by_its_own_rule(placer, nodes):
    found = placed(placer, Demand(4, nodes=2))
    assert found is not None
    assert {node for node, _ in found} == nodes
    assert all(slots.bit_count() == 2 for _, slots in found)


def test_a_random_placer_draws_the_nodes():
    drawn = {
        tuple(sorted(node for node, _ in placed("random", Demand(4, nodes=2), seed=seed) or ()))
        for seed in range(30)
    }
    assert len(drawn) > 5
    assert all(len(nodes) == 2 and all(FREE[node] >= 2 for node in nodes) for nodes in drawn)


def across_racks(model: str) -> Harness:
    """Two racks of two nodes, in each of which one node is taken for some time."""
    nodes = [Node(f"n{i}", 4, rack="aabb"[i]) for i in range(4)]
    options = {"network": "pcie-10g"}
    lab = Harness("fifo-skip", cluster=Cluster(nodes), placer="profile", placer_options=options)
    lab.running("a", gpus=4, on={"n1": 4}).running("b", gpus=4, on={"n3": 4}).plan()
    lab.submit("pair", gpus=8, model=model, demand=Demand(8, nodes=2))
    return lab


def test_profile_waits_for_nodes_of_one_rack_as_long_as_two_racks_would_cost():
    lab = across_racks("vgg16")
    assert lab.job("pair").run is None
    assert "needs 8 on 2 nodes" in str(lab.why("pair"))
    lab.finish("b")
    assert lab.nodes_of("pair") == {"n2": 4, "n3": 4}


def test_profile_takes_two_racks_when_it_has_waited_long_enough():
    lab = across_racks("resnet50")
    lab.wait(100_000)
    assert set(lab.nodes_of("pair")) == {"n0", "n2"}


def test_a_trace_may_state_the_number_of_nodes():
    trace = a_trace([(0.0, 2, 10.0), (0.0, 3, 10.0), (0.0, 6, 10.0)], nodes=[2, None, 3])
    result = simulate(trace, Cluster.of(2, 4), "fifo-skip", placer="packed")
    assert result.rejected_jobs == 1
    assert any("asks for 3 nodes, and there are 2" in note for note in result.rejections)
    assert result.jobs["nodes"].to_list()[:2] == [2, 1]
