"""The ledger against a naive one that keeps slots in sets, trials included."""

from __future__ import annotations

import copy
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.ledger import Ledger, lowest
from tiresias.core.model import Cluster, Node, RunId

Slot = tuple[int, int]


class NaiveLedger:
    """Who holds which slots, and which nodes and slots are out of service; all else is counted when asked."""

    def __init__(self, cluster: Cluster):
        self.sizes = [node.gpus for node in cluster.nodes]
        self.held: dict[RunId, set[Slot]] = {}
        self.out: set[int] = set()
        self.out_slots: set[Slot] = set()

    @property
    def offered(self) -> set[Slot]:
        everything = {(node, i) for node, size in enumerate(self.sizes) for i in range(size)}
        return {(node, i) for node, i in everything - self.out_slots if node not in self.out}

    @property
    def taken(self) -> set[Slot]:
        return {slot for slots in self.held.values() for slot in slots}

    def free_slots(self, node: int) -> set[Slot]:
        return {slot for slot in self.offered - self.taken if slot[0] == node}

    @property
    def free(self) -> int:
        return len(self.offered - self.taken)

    @property
    def gpus(self) -> int:
        return len(self.offered)

    @property
    def capacity(self) -> int:
        return len(self.offered | self.taken)

    @property
    def best_hole(self) -> int:
        return max((len(self.free_slots(node)) for node in range(len(self.sizes))), default=0)


def slots_of(allocation: Allocation) -> set[Slot]:
    return {
        (node, index) for node, mask in allocation for index in range(mask.bit_length()) if mask >> index & 1
    }


def same(ledger: Ledger, naive: NaiveLedger) -> None:
    assert (ledger.free, ledger.gpus, ledger.capacity) == (naive.free, naive.gpus, naive.capacity)
    assert ledger.best_hole() == naive.best_hole
    assert ledger.free_by_rack() == Holes.free_by_rack(ledger), "kept up to date, and counted"
    assert {run: slots_of(allocation) for run, allocation in ledger.allocations.items()} == naive.held
    for node, mask in enumerate(ledger.free_slots):
        assert slots_of(((node, mask),)) == naive.free_slots(node)
        assert ledger.in_service[node] is (node not in naive.out)


class Pair:
    """Both ledgers, and random changes to both."""

    def __init__(self, rng: Random):
        sizes = [rng.choice((1, 2, 4, 8)) for _ in range(rng.randrange(1, 6))]
        cluster = Cluster([Node(f"n{i}", gpus, rack=rng.choice("ab")) for i, gpus in enumerate(sizes)])
        self.rng, self.ledger, self.naive, self.next_run = rng, Ledger(cluster), NaiveLedger(cluster), 1

    def take(self) -> None:
        parts = []
        for node in range(len(self.naive.sizes)):
            free = sorted(self.naive.free_slots(node))
            if node in self.naive.out or not free or self.rng.random() < 0.5:
                continue
            chosen = self.rng.sample(free, self.rng.randrange(1, len(free) + 1))
            parts.append((node, sum(1 << index for _, index in chosen)))
        if parts:
            run = RunId(self.next_run)
            self.next_run += 1
            self.ledger.take(run, tuple(parts))
            self.naive.held[run] = slots_of(tuple(parts))

    def release(self) -> None:
        if self.naive.held:
            run = self.rng.choice(sorted(self.naive.held))
            self.ledger.release(run)
            del self.naive.held[run]

    def withdraw(self) -> None:
        node = self.rng.randrange(len(self.naive.sizes))
        self.ledger.withdraw(f"n{node}")
        self.naive.out.add(node)

    def restore(self) -> None:
        node = self.rng.randrange(len(self.naive.sizes))
        self.ledger.restore(f"n{node}")
        self.naive.out.discard(node)

    def _any_slot(self) -> Slot:
        node = self.rng.randrange(len(self.naive.sizes))
        return node, self.rng.randrange(self.naive.sizes[node])

    def withdraw_slot(self) -> None:
        node, index = self._any_slot()
        self.ledger.withdraw_slot(f"n{node}", index)
        self.naive.out_slots.add((node, index))

    def restore_slot(self) -> None:
        node, index = self._any_slot()
        self.ledger.restore_slot(f"n{node}", index)
        self.naive.out_slots.discard((node, index))

    def trial(self, depth: int) -> None:
        """Try things, also inside a trial, and undo all of them."""
        before, mark = copy.deepcopy(self.naive), self.ledger.checkpoint()
        for _ in range(self.rng.randrange(5)):
            self.rng.choice((self.take, self.release))()
            same(self.ledger, self.naive)
            if depth and self.rng.random() < 0.3:
                self.trial(depth - 1)
        self.ledger.rollback(mark)
        self.naive = before
        same(self.ledger, self.naive)


@settings(max_examples=100)
@given(seed=st.integers(0, 10**9))
def test_any_sequence(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(rng)
    for _ in range(25):
        nodes = (pair.withdraw, pair.restore, pair.withdraw_slot, pair.restore_slot)
        rng.choice((pair.take, pair.take, pair.take, pair.release, *nodes, lambda: pair.trial(2)))()
        same(pair.ledger, pair.naive)


def test_a_slot_is_given_once() -> None:
    ledger = Ledger(Cluster.of(1, 4))
    ledger.take(RunId(1), ((0, 0b0011),))
    with pytest.raises(AssertionError, match="slots taken twice"):
        ledger.take(RunId(2), ((0, 0b0110),))
    with pytest.raises(AssertionError, match="one run, two allocations"):
        ledger.take(RunId(1), ((0, 0b1000),))


def test_a_drained_node_gives_nothing_and_takes_back_what_it_gave() -> None:
    ledger = Ledger(Cluster.of(2, 4))
    ledger.take(RunId(1), ((0, 0b0011),))
    ledger.withdraw("n0")
    assert (ledger.free, ledger.gpus, ledger.capacity) == (4, 4, 6)
    with pytest.raises(AssertionError, match="out of service"):
        ledger.take(RunId(2), ((0, 0b0100),))
    ledger.release(RunId(1))
    assert (ledger.free, ledger.gpus, ledger.capacity) == (4, 4, 4)
    ledger.restore("n0")
    assert (ledger.free, ledger.gpus, ledger.capacity) == (8, 8, 8)


def test_a_hidden_slot_cannot_be_used_until_it_is_shown() -> None:
    ledger = Ledger(Cluster.of(2, 4))
    ledger.take(RunId(1), ((0, 0b0011),))
    ledger.hide(((0, 0b1100), (1, 0b0001)))
    assert (ledger.free, ledger.best_hole(), ledger.allocations) == (3, 3, {1: ((0, 0b0011),)})
    with pytest.raises(AssertionError, match="not free"):
        ledger.hide(((0, 0b0100),))
    ledger.take(RunId(2), ((1, 0b0010),))
    ledger.show(((0, 0b1100), (1, 0b0001)))
    assert (ledger.free, ledger.free_slots) == (5, [0b1100, 0b1101])


def test_undo_needs_a_trial() -> None:
    with pytest.raises(AssertionError, match="rollback without checkpoint"):
        Ledger(Cluster.of(1, 1)).rollback(0)


def test_two_nodes_of_one_name_and_fewer_gpus_than_none_are_refused() -> None:
    with pytest.raises(AssertionError, match="two nodes of one name"):
        Ledger(Cluster([Node("a", 1), Node("a", 1)]))
    with pytest.raises(AssertionError, match="fewer GPUs than none"):
        Ledger(Cluster([Node("a", -1)]))


def test_slots_by_name() -> None:
    ledger = Ledger(Cluster.of(2, 4))
    assert list(ledger.slot_names(((0, 0b1001), (1, 0b0010)))) == ["n0:0", "n0:3", "n1:1"]


@given(slots=st.integers(1, 2**16 - 1), data=st.data())
def test_the_lowest_slots(slots: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, slots.bit_count()))
    taken = lowest(slots, count)
    indices = [index for index in range(16) if slots >> index & 1]
    assert taken == sum(1 << index for index in indices[:count])
