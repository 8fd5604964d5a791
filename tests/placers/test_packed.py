"""packed: the fewest nodes now, best fit; count: the first free slots."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

import tiresias.placers  # noqa: F401  (for what it registers)
from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Node, RunId
from tiresias.core.plugins import placers
from tiresias.core.state import JobState
from tiresias.testing import Harness
from tiresias.testing.builders import a_job


def ledger_with(*free: int, size: int = 8) -> Ledger:
    """A node for each number of free slots, of `size` GPUs."""
    ledger = Ledger(Cluster([Node(f"n{i}", size) for i in range(len(free))]))
    for node, count in enumerate(free):
        if count < size:
            taken = ((1 << size) - 1) & ~((1 << count) - 1)
            ledger.take(RunId(node + 1), ((node, taken),))
    return ledger


def place(placer: str, gpus: int, ledger: Ledger) -> Allocation:
    allocation = placers.make(placer).place(JobState(a_job(1, gpus)), ledger, 0.0, 0.0)
    assert allocation is not None
    return allocation


def by_node(allocation: Allocation) -> dict[int, int]:
    return {node: slots.bit_count() for node, slots in allocation}


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ((8, 8), 3, {0: 3}),  # first by position
        ((8, 3, 4), 3, {1: 3}),  # the hole that fits best
        ((8, 4, 4), 3, {1: 3}),
        ((2, 2, 8), 2, {0: 2}),
        ((3, 8, 8), 11, {0: 3, 1: 8}),  # the rest where it fits best
        ((8, 8, 8), 16, {0: 8, 1: 8}),
        ((4, 4, 4), 6, {0: 4, 1: 2}),
        ((1, 5, 8, 2), 10, {2: 8, 3: 2}),
        ((1, 1, 1, 1), 3, {0: 1, 1: 1, 2: 1}),
    ],
)
def test_packed(free: tuple[int, ...], gpus: int, expected: dict[int, int]) -> None:
    assert by_node(place("packed", gpus, ledger_with(*free))) == expected


def test_packed_uses_the_fewest_nodes() -> None:
    """Compared with all choices of nodes."""
    rng = Random(1)
    for _ in range(400):
        free = [rng.randrange(9) for _ in range(rng.randrange(1, 7))]
        if not sum(free):
            continue
        gpus = rng.randrange(1, sum(free) + 1)
        used = by_node(place("packed", gpus, ledger_with(*free)))
        fewest = next(n for n in range(1, 7) if any(sum(some) >= gpus for some in combinations(free, n)))
        assert len(used) == fewest, (free, gpus, used)


def test_packed_leaves_the_largest_holes_where_one_node_is_enough() -> None:
    rng = Random(2)
    for _ in range(300):
        free = [rng.randrange(9) for _ in range(rng.randrange(1, 7))]
        if not max(free):
            continue
        gpus = rng.randrange(1, max(free) + 1)
        (node,) = by_node(place("packed", gpus, ledger_with(*free)))
        fits = [count for count in free if count >= gpus]
        assert free[node] == min(fits), (free, gpus, node)
        assert node == free.index(min(fits)), "ties go by position"


def test_packed_asks_for_no_node_that_is_out_of_service() -> None:
    ledger = ledger_with(3, 8)
    ledger.withdraw("n0")
    assert by_node(place("packed", 3, ledger)) == {1: 3}


def test_count_takes_the_first_free_slots() -> None:
    assert by_node(place("count", 6, ledger_with(2, 0, 3, 8))) == {0: 2, 2: 3, 3: 1}


def test_slots_are_the_lowest_that_are_free() -> None:
    ledger = Ledger(Cluster.of(1, 8))
    ledger.take(RunId(1), ((0, 0b00000101),))
    for placer in ("count", "packed"):
        assert place(placer, 3, ledger) == ((0, 0b00011010),)


def test_a_gang_larger_than_a_node_is_spread_rather_than_kept_waiting() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4, placer="packed")
    lab.running("a", gpus=1).running("b", gpus=3)
    lab.plan()
    assert lab.submit("c", gpus=4).started == ["c"]
    assert lab.submit("d", gpus=1).started == []


def test_without_a_model_profile_places_on_one_machine_as_packed_does() -> None:
    """So it may be the placer of a machine whose users tell nothing of their models."""
    rng = Random(3)
    for _ in range(300):
        free = [rng.randrange(9)]
        ledger = ledger_with(*free)
        gpus = rng.randrange(1, max(sum(free), 1) + 1)
        job = JobState(a_job(1, gpus))
        packed, profile = (placers.make(name).place(job, ledger, 0.0, 0.0) for name in ("packed", "profile"))
        assert packed == profile, (free, gpus)
        assert placers.make("profile").claim(job, ledger, 0.0, 0.0) == ()
