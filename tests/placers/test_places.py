"""Where each placer puts a gang, from given holes."""

from __future__ import annotations

from random import Random

import pytest

import tiresias.placers  # noqa: F401  (for what it registers)
from tiresias.core.facts import Allocation
from tiresias.core.holes import EVERYWHERE
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Node, RunId
from tiresias.core.plugins import placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_now
from tiresias.placers.shapes import shape_now
from tiresias.profiles.links import shape_of
from tiresias.testing.builders import a_job


def ledger_with(*free: int, size: int = 8, racks: str = "", **node: object) -> Ledger:
    """A node for each number of free slots, of `size` GPUs; `racks` has a letter for each."""
    names = racks or "r" * len(free)
    nodes = [Node(f"n{i}", size, rack=rack, **node) for i, rack in enumerate(names)]  # type: ignore[arg-type]
    ledger = Ledger(Cluster(nodes))
    for position, count in enumerate(free):
        if count < size:
            take(ledger, position, (1 << size) - (1 << count))
    return ledger


def take(ledger: Ledger, node: int, slots: int) -> None:
    ledger.take(RunId(len(ledger.allocations) + 1), ((node, slots),))


def place(placer: str, gpus: int, ledger: Ledger, id: int = 1, **options: object) -> Allocation | None:
    return placers.make(placer, options).place(JobState(a_job(id, gpus)), ledger, 0.0, 0.0)


def by_node(allocation: Allocation | None) -> dict[int, int] | None:
    return None if allocation is None else {node: slots.bit_count() for node, slots in allocation}


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ((8, 3, 4), 3, {1: 3}),  # best fit
        ((3, 3, 3), 4, None),
        ((8, 5, 3), 11, {0: 8, 2: 3}),
        ((8, 2, 2), 11, None),  # three nodes would hold it, two could
        ((7, 7, 7), 16, None),
        ((8, 7, 8), 16, {0: 8, 2: 8}),
    ],
)
def test_consolidated(free: tuple[int, ...], gpus: int, expected: dict[int, int] | None) -> None:
    assert by_node(place("consolidated", gpus, ledger_with(*free))) == expected


def test_consolidated_takes_one_rack_if_one_has_the_nodes() -> None:
    ledger = ledger_with(8, 2, 8, 8, 8, racks="aabbb")
    assert by_node(place("consolidated", 16, ledger)) == {2: 8, 3: 8}
    ledger = ledger_with(8, 2, 8, 2, racks="aabb")
    assert by_node(place("consolidated", 16, ledger)) == {0: 8, 2: 8}, "two nodes of two racks are two nodes"


def test_what_is_fewest_follows_the_nodes_in_service() -> None:
    ledger = ledger_with(8, 4, 4)
    ledger.withdraw("n0")
    assert place("consolidated", 8, ledger) is None
    for node in ("n1", "n2"):
        ledger.withdraw_slot(node, 7)  # now no node could hold eight
    assert by_node(place("consolidated", 8, ledger)) == {1: 4, 2: 4}
    ledger.restore("n0")
    assert by_node(place("consolidated", 8, ledger)) == {0: 8}


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ((8, 8, 8), 3, {0: 1, 1: 1, 2: 1}),
        ((2, 8, 5), 1, {1: 1}),  # the emptiest
        ((1, 8, 5), 9, {0: 1, 1: 4, 2: 4}),
        ((0, 3, 3), 5, {1: 3, 2: 2}),
    ],
)
def test_spread(free: tuple[int, ...], gpus: int, expected: dict[int, int]) -> None:
    assert by_node(place("spread", gpus, ledger_with(*free))) == expected


@pytest.mark.parametrize(
    ("free", "racks", "gpus", "expected"),
    [
        ((8, 8, 8, 7), "aabb", 16, {0: 8, 1: 8}),
        ((4, 8, 8, 7), "aabb", 4, {2: 4}),  # the emptiest rack, there the emptiest node
        ((4, 4, 8, 1), "aabb", 9, {2: 8, 3: 1}),
        ((4, 4, 7, 2), "aabb", 10, {2: 7, 3: 2, 0: 1}),  # no rack holds it: the fewest racks
        ((8, 8, 8, 3), "aabb", 1, {3: 1}),  # single GPUs break no hole
    ],
)
def test_rack_local(free: tuple[int, ...], racks: str, gpus: int, expected: dict[int, int]) -> None:
    assert by_node(place("rack-local", gpus, ledger_with(*free, racks=racks))) == expected


def test_random_differs_by_job_and_seed_and_by_nothing_else() -> None:
    ledger = ledger_with(*[8] * 50)
    drawn = [place("random", 4, ledger, id=id, seed=seed) for id in range(10) for seed in range(10)]
    again = [place("random", 4, ledger, id=id, seed=seed) for id in range(10) for seed in range(10)]
    assert drawn == again
    assert len(set(drawn)) > 95
    used = [by_node(allocation) for allocation in drawn]
    assert sum(len(nodes) for nodes in used if nodes) > 370, "four GPUs are nearly always on four nodes"
    assert {node for nodes in used if nodes for node in nodes} == set(range(50))


def test_buddy_breaks_the_smallest_block() -> None:
    ledger = Ledger(Cluster.of(2, 8))
    take(ledger, 0, 0b00010011)  # free: 2..3, 5, 6..7
    assert place("buddy", 1, ledger) == ((0, 0b00100000),)
    assert place("buddy", 2, ledger) == ((0, 0b00001100),)
    assert place("buddy", 3, ledger) == ((1, 0b00000111),), "in a block of four"
    assert place("buddy", 8, ledger) == ((1, 0b11111111),)


def test_buddy_waits_for_an_aligned_block() -> None:
    ledger = Ledger(Cluster.of(1, 8))
    take(ledger, 0, 0b00010001)
    assert place("buddy", 4, ledger) is None
    job = JobState(a_job(1, 4))
    sentence = placers.make("buddy").refusal(job, ledger, 0.0, 0.0)
    assert sentence == "6 free, best hole 6, needs 4 in a free block of 4"
    assert placers.make("buddy").claim(job, ledger, 0.0, 0.0) == ((0, 0b00001110),)


def test_buddy_gives_large_gangs_whole_nodes_and_a_block() -> None:
    ledger = Ledger(Cluster.of(3, 4))
    take(ledger, 0, 0b0001)
    assert by_node(place("buddy", 6, ledger)) == {1: 4, 0: 2}
    assert place("buddy", 8, ledger) == ((1, 15), (2, 15))
    take(ledger, 1, 0b0001)
    assert place("buddy", 8, ledger) is None


def test_a_gang_gets_the_slots_of_one_socket() -> None:
    halves = ((0, 1, 2, 3), (4, 5, 6, 7))
    ledger = ledger_with(8, sockets=halves)
    take(ledger, 0, 0b00000111)
    assert place("packed", 2, ledger) == ((0, 0b00110000),), "three are free below, but of two sockets"
    assert place("packed", 1, ledger) == ((0, 0b00001000),), "the fullest socket"
    assert place("packed", 5, ledger) == ((0, 0b11111000),)


def test_a_choosy_gang_sees_only_nodes_that_suit_it() -> None:
    kinds = [("A100", 64), ("V100", 64), ("V100", 16)]
    nodes = [Node(f"n{i}", 4, gpu_type=kind, cpus=cpus) for i, (kind, cpus) in enumerate(kinds)]
    ledger = Ledger(Cluster(nodes))

    def open_nodes(**wish: object) -> list[int]:
        holes = ledger.open_to(Demand(2, **wish))  # type: ignore[arg-type]
        return [node for node in range(3) if holes.buckets[4] >> node & 1]

    assert open_nodes() == [0, 1, 2]
    assert open_nodes(gpu_type="V100") == [1, 2]
    assert open_nodes(cpus=32) == [0, 1], "half of a node's GPUs come with half of its cores"
    assert open_nodes(gpu_type="V100", cpus=9) == [1]
    assert open_nodes(gpu_type="H100") == []
    assert open_nodes(memory_bytes=1 << 40) == [0, 1, 2], "where memory is not known, no job is refused"


@pytest.mark.parametrize(
    ("sizes", "free", "gpus", "expected"),
    [
        ((4, 4, 4), (3, 2, 3), 4, {0: 3}),
        ((4, 4, 4), (2, 3, 3), 4, {1: 3}),
        ((4, 4, 4), (0, 3, 1), 6, {1: 3, 2: 1}),  # four of one, two of another
        ((8, 4, 4), (2, 4, 4), 8, {0: 2}),  # only the large one can hold it alone
        ((8, 4, 4, 1), (8, 0, 0, 1), 16, {0: 8}),  # three nodes: the smallest would be of no use
    ],
)
def test_a_place_is_built_on_the_fewest_emptiest_nodes(
    sizes: tuple[int, ...], free: tuple[int, ...], gpus: int, expected: dict[int, int]
) -> None:
    ledger = Ledger(Cluster([Node(f"n{i}", size) for i, size in enumerate(sizes)]))
    for node, (size, count) in enumerate(zip(sizes, free, strict=True)):
        if count < size:
            take(ledger, node, (1 << size) - (1 << count))
    assert by_node(ledger.emptiest(gpus)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_the_shape_that_is_foreseen_is_that_of_the_place(seed: int) -> None:
    rng = Random(seed)
    ledger = ledger_with(*(rng.randrange(9) for _ in range(9)), racks="aaabbbccc")
    for among in (EVERYWHERE, *ledger.racks.values()):
        free = ledger.free if among == EVERYWHERE else ledger.free_in(among)
        for need in range(1, free + 1):
            allocation = fewest_now(need, ledger, among)
            where = [(ledger.nodes[node].rack, ledger.nodes[node].name, n) for node, n in parts(allocation)]
            assert shape_now(need, ledger, among) == shape_of(where)


def parts(allocation: Allocation) -> list[tuple[int, int]]:
    return [(node, slots.bit_count()) for node, slots in allocation]
