"""Gangs that ask for a number of nodes: shared out evenly, one piece per node, or nothing."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Controller, Step
from tiresias.core.demands import unmet
from tiresias.core.holes import PlacementError
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Node, RunId
from tiresias.core.plugins import Placer, policies
from tiresias.core.state import State
from tiresias.testing.builders import a_job
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


def test_there_is_room_exactly_if_each_piece_can_have_a_node_of_its_own():
    rng = Random(5)
    for _ in range(500):
        free = [rng.randrange(5) for _ in range(rng.randrange(1, 6))]
        nodes = rng.randrange(1, 5)
        demand = Demand(rng.randrange(nodes, 4 * nodes + 1), nodes=nodes)
        ledger = ledger_of(*free)
        holes = ledger.open_to(demand)
        room = len(free) >= nodes and all(
            have >= want for have, want in zip(sorted(free, reverse=True), demand.pieces, strict=False)
        )
        assert holes.hold(demand.gpus) is room, (free, demand)
        could = len(free) >= nodes and demand.pieces[0] <= 4
        assert holes.could_hold(demand.gpus) is could is ledger.can_serve(demand), (free, demand)


@pytest.mark.parametrize(
    ("free", "demand", "says"),
    [
        ((4, 1, 1), Demand(4, nodes=2), "6 free, needs 4 on 2 nodes with 2 each; 1 node has 2 free"),
        ((4, 0, 0), Demand(3, nodes=3), "4 free, needs 3 on 3 nodes with 1 each; 1 node has 1 free"),
        ((1, 1, 1, 1), Demand(4, nodes=1), "4 free, needs 4 on 1 node with 4; 0 nodes have 4 free"),
        (
            (2, 2, 2, 2),
            Demand(8, nodes=3),
            "8 free, needs 8 on 3 nodes with 2 or 3 each; 4 nodes have 2 free, 0 of them 3, and 2 must",
        ),
    ],
)
def test_what_is_lacking_is_said_in_words(free, demand, says):
    assert ledger_of(*free).open_to(demand).shortage(demand.gpus) == says


def test_a_gang_keeps_slots_of_the_emptiest_nodes_that_are_large_enough():
    ledger = ledger_of(0, 3, 1, 2)
    claim = ledger.open_to(Demand(8, nodes=3)).emptiest(8)
    assert [(node, slots.bit_count()) for node, slots in claim] == [(1, 3), (3, 2), (2, 1)]


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


@pytest.mark.parametrize("placer", ["count", "packed", "profile", "consolidated"])
def test_why_says_what_a_gang_over_nodes_waits_for(placer):
    harness = Harness("fifo-skip", cluster=Cluster.of(2, 2), placer=placer)
    harness.running("a", gpus=2).pending("b", gpus=2, demand=Demand(2, nodes=2)).plan()
    why = harness.why("b")
    assert why is not None
    assert why.text.endswith("2 free, needs 2 on 2 nodes with 1 each; 1 node has 1 free")


def test_a_run_migrates_from_the_node_that_lacks_a_slot():
    """x and z are alike, but only where z runs there is a slot too few."""
    lab = Harness("tiresias-l", nodes=3, gpus=4, placer="consolidated", placer_options={"migrations": 1})
    lab.running("fixed0", on={"n0": 1}, service_s=9000.0, preemptible=False)
    lab.running("fixed1", gpus=2, on={"n1": 2}, service_s=9000.0, preemptible=False)
    lab.running("fixed2", gpus=3, on={"n2": 3}, service_s=9000.0, preemptible=False)
    lab.running("x", on={"n0": 1}, service_s=3600.0).running("z", on={"n1": 1}, service_s=3700.0).plan()
    assert lab.submit("pair", gpus=4, demand=Demand(4, nodes=2)).preempted == ["z"]
    lab.exit("z")
    assert lab.nodes_of("pair") == {"n0": 2, "n1": 2}
    assert lab.nodes_of("z") == {"n2": 1}


def test_a_gang_whose_nodes_are_out_of_service_keeps_nothing_from_others():
    lab = Harness("tiresias-l", cluster=Cluster.of(2, 4))
    lab.drain("n1")
    assert lab.submit("pair", gpus=4, demand=Demand(4, nodes=2)).started == []
    assert lab.submit("single", gpus=4).started == ["single"]
    why = lab.why("pair")
    assert why is not None
    assert why.code == "OutOfService"
    assert why.text.endswith("needs 4 GPUs on 2 nodes, at least 2 on each; 1 of 2 such nodes are in service")
    lab.restore("n1")
    lab.finish("single")
    assert lab.nodes_of("pair") == {"n0": 2, "n1": 2}


def test_a_gang_that_runs_goes_on_when_one_of_its_nodes_is_drained():
    lab = Harness("tiresias-l", cluster=Cluster.of(2, 4))
    assert lab.submit("pair", gpus=4, demand=Demand(4, nodes=2)).started == ["pair"]
    assert lab.drain("n1").preempted == []
    assert lab.submit("other", gpus=4).started == []
    invariants.check_plan(lab.controller)


class OnOneNode(Placer):
    """Knows nothing of pieces."""

    name = "on-one-node"

    def place(self, job, holes, at, refused_since):
        return ((0, (1 << job.gpus) - 1),)


def test_a_placer_that_ignores_the_nodes_asked_for_is_blamed():
    state = State(Cluster.of(2, 4))
    controller = Controller(state, policies.make("fifo-skip"), OnOneNode())
    with pytest.raises(PlacementError, match=r"2 slots on a node each, and not 1 \+ 1"):
        controller.handle([f.JobSubmitted(0.0, a_job(1, demand=Demand(2, nodes=2)))], Step())
    assert controller.failure is not None
    assert (controller.failure.kind, controller.failure.name) == ("placer", "on-one-node")
