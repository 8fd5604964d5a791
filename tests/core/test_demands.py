"""Demands that can never be met: named with what there is, before anybody waits for them."""

from __future__ import annotations

import pytest

from tiresias.core.demands import GIB, unmet
from tiresias.core.model import Demand, Node

LAB = [
    Node("a", 4, gpu_type="P100", cpus=20, memory_bytes=64 * GIB),
    Node("b", 4, gpu_type="P100", cpus=20, memory_bytes=64 * GIB),
    Node("c", 8, gpu_type="K80", cpus=16),
]


@pytest.mark.parametrize(
    ("demand", "sentence"),
    [
        (Demand(17), "asks for 17 GPUs, and there are 16 in all; ask for fewer"),
        (
            Demand(1, gpu_type="H100"),
            "asks for GPUs of type H100, and there are 8 P100, 8 K80; ask for what there is",
        ),
        (Demand(9, gpu_type="P100"), "asks for 9 GPUs of type P100, and there are 8 such; ask for fewer"),
        (
            Demand(2, cpus=24),
            "asks for GPUs with 12 cores each, and no node has more than 5 cores per GPU; "
            "ask for what there is",
        ),
        (
            Demand(1, gpu_type="K80", cpus=3),
            "asks for GPUs with 3 cores each, and no node has more than 2 cores per GPU; "
            "ask for what there is",
        ),
        (Demand(9, cpus=27), "asks for 9 GPUs with 3 cores each, and there are 8 such; ask for fewer"),
        (
            Demand(1, gpu_type="P100", memory_bytes=17 * GIB),
            "asks for GPUs with 17 GiB of memory each, and no node has more than 16 GiB per GPU; "
            "ask for what there is",
        ),
    ],
)
def test_a_demand_that_no_node_meets_is_explained(demand: Demand, sentence: str) -> None:
    assert unmet(demand, LAB) == sentence


@pytest.mark.parametrize(
    "demand",
    [
        Demand(16),
        Demand(8, gpu_type="P100"),
        Demand(2, cpus=10),
        Demand(16, cpus=32),
        Demand(8, gpu_type="K80", memory_bytes=900 * GIB),  # the memory of its node is not known
    ],
)
def test_what_can_be_met(demand: Demand) -> None:
    assert unmet(demand, LAB) == ""


def test_where_no_node_tells_its_type() -> None:
    sentence = unmet(Demand(1, gpu_type="H100"), [Node("a", 4)])
    assert sentence == "asks for GPUs of type H100, and no node states a type; ask for what there is"


@pytest.mark.parametrize(
    ("gpus_of_nodes", "asked", "sentence"),
    [
        (
            [4, 0, 2],
            Demand(4, nodes=2),
            "",
        ),  # the node without GPUs does not count, and the largest comes first
        ([2, 3], Demand(5, nodes=2), ""),  # the largest piece goes to the largest node
        ([2, 4], Demand(6, nodes=2), "asks for 2 nodes with 3 GPUs each, and 1 have so many"),
        ([4, 0], Demand(4, nodes=2), "asks for 2 nodes, and there is 1; ask for fewer"),
    ],
)
def test_nodes_that_a_gang_asks_for_are_counted_by_their_gpus(
    gpus_of_nodes: list[int], asked: Demand, sentence: str
) -> None:
    nodes = [Node(f"n{number}", gpus) for number, gpus in enumerate(gpus_of_nodes)]
    found = unmet(asked, nodes)
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)
