"""Gangs that ask for a number of nodes: shared out evenly, one piece per node, or nothing."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core import pieces
from tiresias.core.demands import unmet
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Node, RunId
from tiresias.testing.harness import Harness


@pytest.mark.parametrize(
    ("gpus", "nodes", "shared_out"),
    [(8, 2, (4, 4)), (8, 3, (3, 3, 2)), (3, 3, (1, 1, 1)), (5, 1, (5,))],
)
def test_gpus_are_shared_out_evenly(gpus, nodes, shared_out):
    assert Demand(gpus, nodes=nodes).pieces == shared_out


def ledger_of(*free: int, racks: str = "", size: int = 4) -> Ledger:
    """A cluster whose nodes have so many free slots each."""
    nodes = [Node(f"n{i}", size, rack=(racks or "a" * len(free))[i]) for i in range(len(free))]
    ledger = Ledger(Cluster(nodes))
    for node, count in enumerate(free):
        if count < size:
            ledger.take(RunId(node + 1), ((node, (1 << (size - count)) - 1),))
    return ledger


@pytest.mark.parametrize(
    ("free", "demand", "counts"),
    [
        ((4, 4, 4), Demand(4, nodes=2), {0: 2, 1: 2}),
        ((4, 2, 2), Demand(4, nodes=2), {1: 2, 2: 2}),  # the best fit, not the first
        ((1, 2, 4), Demand(5, nodes=2), {1: 2, 2: 3}),
        ((4, 4, 4), Demand(5, nodes=3), {0: 2, 1: 2, 2: 1}),
        ((4, 1, 0), Demand(4, nodes=2), None),  # enough slots, and not on two nodes
        ((4, 4, 0), Demand(3, nodes=3), None),
    ],
)
def test_each_piece_goes_to_a_node_of_its_own(free, demand, counts):
    found = pieces.in_pieces(demand, ledger_of(*free))
    assert (None if found is None else {node: slots.bit_count() for node, slots in found}) == counts


def test_one_rack_is_preferred_to_two():
    ledger = ledger_of(2, 4, 2, 2, racks="abbb")
    assert [node for node, _ in pieces.in_pieces(Demand(4, nodes=2), ledger) or ()] == [2, 3]


def test_whatever_is_placed_is_whole_and_free_and_nothing_is_refused_that_fits():
    rng = Random(5)
    for _ in range(500):
        free = [rng.randrange(5) for _ in range(rng.randrange(1, 6))]
        nodes = rng.randrange(1, 5)
        demand = Demand(rng.randrange(nodes, 4 * nodes + 1), nodes=nodes)
        racks = "".join(rng.choice("ab") for _ in free)
        ledger = ledger_of(*free, racks=racks)
        found = pieces.in_pieces(demand, ledger)
        could = len(free) >= nodes and all(
            have >= want for have, want in zip(sorted(free, reverse=True), demand.pieces, strict=False)
        )
        assert (found is not None) is could, (free, demand)
        if found is not None:
            assert sorted((slots.bit_count() for _, slots in found), reverse=True) == list(demand.pieces)
            assert len({node for node, _ in found}) == nodes
            assert all(slots & ~ledger.free_slots[node] == 0 for node, slots in found)


@pytest.mark.parametrize(
    ("demand", "says"),
    [
        (Demand(3, nodes=3), "asks for 3 nodes, and there are 2; ask for fewer"),
        (Demand(6, nodes=1), "asks for 1 nodes with 6 GPUs each, and 0 have so many"),
        (Demand(8, nodes=2), ""),
        (Demand(9), "asks for 9 GPUs, and there are 8 in all"),
    ],
)
def test_what_can_never_be_met_is_named(demand, says):
    found = unmet(demand, Cluster.of(2, 4).nodes)
    assert found.startswith(says)
    assert bool(found) is bool(says)


def test_a_gang_that_waits_for_nodes_keeps_them_from_those_behind_it():
    """Two GPUs are free on one node only: they are kept until the other node has two as well."""
    harness = Harness("fifo-skip", cluster=Cluster.of(2, 2))
    harness.running("a", gpus=2).pending("b", gpus=2, demand=Demand(2, nodes=2)).pending("c", gpus=1)
    plan = harness.plan()
    assert plan.started == [], plan
