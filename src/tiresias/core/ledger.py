"""The book of who holds which slots.

A slot is free only when its run has been released; draining a node takes its free slots off the market
and keeps the taken ones off it once they are released. Nodes are kept in buckets by how many of their
slots are free (bit masks over node positions), so a placer finds the best fit without a scan. Every
change can be undone: `mark = ledger.checkpoint()`, try things, `ledger.rollback(mark)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiresias.core.facts import Allocation
from tiresias.core.model import Cluster, Node, RunId


class Ledger:
    """Free and held slots of a cluster. `free` and `gpus` count slots of nodes in service only."""

    def __init__(self, cluster: Cluster):
        self.nodes: list[Node] = []
        self.free_slots: list[int] = []  # by node: bit mask of the free slots
        self.free_counts: list[int] = []
        self.in_service: list[bool] = []
        self.buckets: list[int] = [0]  # by number of free slots: bit mask of nodes in service
        self.free = 0
        self.gpus = 0
        self.held: dict[RunId, Allocation] = {}
        self._position: dict[str, int] = {}
        self.capacity = 0  # slots in service, plus those that runs still hold on withdrawn nodes
        self._undo: list[Callable[[], None]] = []
        self._trials = 0
        for node in cluster.nodes:
            self.add_node(node)

    # --- nodes -----------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        assert node.name not in self._position, ("two nodes of one name", node.name)
        assert node.gpus > 0, ("a node without GPUs", node)
        position = len(self.nodes)
        self._position[node.name] = position
        self.nodes.append(node)
        self.free_slots.append((1 << node.gpus) - 1)
        self.free_counts.append(node.gpus)
        self.in_service.append(True)
        while len(self.buckets) <= node.gpus:
            self.buckets.append(0)
        self.buckets[node.gpus] |= 1 << position
        self.free += node.gpus
        self.gpus += node.gpus
        self.capacity += node.gpus

    def position(self, node: str) -> int:
        return self._position[node]

    def withdraw(self, node: str) -> None:
        """Take the node out of service: its free slots are offered to nobody."""
        position = self._position[node]
        if not self.in_service[position]:
            return
        self.in_service[position] = False
        self.buckets[self.free_counts[position]] &= ~(1 << position)
        self.free -= self.free_counts[position]
        self.gpus -= self.nodes[position].gpus
        self.capacity -= self.free_counts[position]

    def restore(self, node: str) -> None:
        position = self._position[node]
        if self.in_service[position]:
            return
        self.in_service[position] = True
        self.buckets[self.free_counts[position]] |= 1 << position
        self.free += self.free_counts[position]
        self.gpus += self.nodes[position].gpus
        self.capacity += self.free_counts[position]

    # --- slots -----------------------------------------------------------------------------------------

    def take(self, run_id: RunId, allocation: Allocation) -> None:
        """Give these slots to the run; each must be free and on a node in service."""
        assert run_id not in self.held, ("one run, two allocations", run_id)
        for node, slots in allocation:
            assert self.in_service[node], ("slots of a node out of service", run_id, self.nodes[node].name)
            free = self.free_slots[node]
            assert slots & free == slots, ("slots taken twice", run_id, self.nodes[node].name, slots, free)
            self._set_free(node, free & ~slots)
        self.held[run_id] = allocation
        if self._trials:
            self._undo.append(lambda: self._untake(run_id))

    def release(self, run_id: RunId) -> None:
        """The run's exit is known: its slots are free."""
        allocation = self.held.pop(run_id)
        for node, slots in allocation:
            self._set_free(node, self.free_slots[node] | slots)
        if self._trials:
            self._undo.append(lambda: self._unrelease(run_id, allocation))

    def _set_free(self, node: int, slots: int) -> None:
        before = self.free_counts[node]
        now = slots.bit_count()
        self.free_slots[node] = slots
        self.free_counts[node] = now
        if self.in_service[node]:
            bit = 1 << node
            buckets = self.buckets
            buckets[before] ^= bit
            buckets[now] |= bit
            self.free += now - before
        else:
            self.capacity += before - now

    def _untake(self, run_id: RunId) -> None:
        for node, slots in self.held.pop(run_id):
            self._set_free(node, self.free_slots[node] | slots)

    def _unrelease(self, run_id: RunId, allocation: Allocation) -> None:
        for node, slots in allocation:
            self._set_free(node, self.free_slots[node] & ~slots)
        self.held[run_id] = allocation

    # --- trials ----------------------------------------------------------------------------------------

    def checkpoint(self) -> int:
        """Start a trial (trials nest); give the mark to `rollback`."""
        self._trials += 1
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark, newest first, and end that trial."""
        assert self._trials, "rollback without checkpoint"
        undo = self._undo
        while len(undo) > mark:
            undo.pop()()
        self._trials -= 1

    # --- looking ---------------------------------------------------------------------------------------

    def slot_names(self, allocation: Allocation) -> Iterator[str]:
        """`node:index` of every slot, in order."""
        for node, slots in allocation:
            for index in range(self.nodes[node].gpus):
                if slots >> index & 1:
                    yield f"{self.nodes[node].name}:{index}"

    def best_hole(self) -> int:
        """The largest number of free slots on one node."""
        return max((free for free, nodes in enumerate(self.buckets) if nodes), default=0)


def lowest(slots: int, count: int) -> int:
    """The `count` lowest set bits of a mask that has at least so many."""
    if count == 1:
        return slots & -slots
    taken = 0
    for _ in range(count):
        bit = slots & -slots
        taken |= bit
        slots ^= bit
    return taken
