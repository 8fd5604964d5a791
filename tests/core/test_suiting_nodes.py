"""Jobs that ask for a type of GPU, for cores or for memory run on nodes that have them, and nowhere else."""

from __future__ import annotations

import pytest

from tiresias.core.model import Cluster, Demand, Node
from tiresias.testing import Harness

GIB = 2**30
LAB = Cluster(
    [
        Node("a", 4, gpu_type="K80", cpus=8, memory_bytes=64 * GIB),
        Node("b", 4, gpu_type="P100", cpus=32, memory_bytes=64 * GIB),
        Node("c", 4, gpu_type="K80", cpus=8, memory_bytes=256 * GIB),
    ]
)


@pytest.mark.parametrize("placer", ["count", "packed", "consolidated"])
@pytest.mark.parametrize(
    ("demand", "node"),
    [
        (Demand(4, gpu_type="P100"), "b"),
        (Demand(2, cpus=16), "b"),
        (Demand(2, memory_bytes=128 * GIB), "c"),
        (Demand(2, gpu_type="K80", memory_bytes=128 * GIB), "c"),
    ],
)
def test_a_job_starts_on_the_nodes_that_suit_it(demand: Demand, node: str, placer: str) -> None:
    lab = Harness("fifo", cluster=LAB, placer=placer)
    assert lab.submit("x", demand=demand).started == ["x"]
    assert lab.nodes_of("x") == {node: demand.gpus}
    assert lab.submit("y", demand=Demand(4, gpu_type=LAB.nodes[1].gpu_type)).started == (
        [] if node == "b" else ["y"]
    )


def test_a_job_waits_while_only_other_nodes_are_free() -> None:
    lab = Harness("fifo", cluster=LAB)
    lab.submit("x", demand=Demand(3, gpu_type="P100"))
    assert lab.submit("y", demand=Demand(2, gpu_type="P100")).started == []
    why = lab.why("y")
    assert why is not None
    assert (why.code, why.free_gpus) == ("WaitingForItsKind", 1)
    assert lab.finish("x").started == ["y"]
    assert lab.nodes_of("y") == {"b": 2}


def test_a_node_that_does_not_say_what_it_has_suits_every_demand_for_cores_and_memory() -> None:
    node = Node("n", 4)
    assert (node.cpus, node.memory_bytes) == (0, 0)
    assert node.suits(Demand(4, cpus=4000))
    assert node.suits(Demand(4, memory_bytes=4000 * GIB))
    assert not node.suits(Demand(4, gpu_type="P100"))


def test_a_demand_for_one_core_is_not_taken_for_a_demand_for_none() -> None:
    poor = Cluster([Node("a", 4, gpu_type="K80", cpus=2), Node("b", 4, gpu_type="K80", cpus=8)])
    lab = Harness("fifo", cluster=poor)
    lab.submit("any", demand=Demand(1, gpu_type="K80"))
    assert lab.nodes_of("any") == {"a": 1}
    lab.submit("x", demand=Demand(1, gpu_type="K80", cpus=1))
    assert lab.nodes_of("x") == {"b": 1}, "the GPUs of the other node have half a core each"
