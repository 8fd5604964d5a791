"""Free slots, as placers see them: nodes in buckets by how many of their slots are free.

Bit masks over node positions stand for sets of nodes, bit masks over slot indices for slots of a node. A
Holes reads the Ledger's own lists, narrowed to some nodes, and is valid until the Ledger changes.

Holes are those for one gang. Where the gang has stated on how many nodes it must be, they have its `pieces`:
each must be on a node of its own. `hold`, `could_hold`, `fewest_nodes` and `emptiest` respect that, and so do
the functions of placers/fits.py; a placer that decides by these alone need not know of pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiresias.core.facts import Allocation
from tiresias.core.model import Node

EVERYWHERE = -1  # the bit mask of all nodes


class PlacementError(ValueError):
    """A placer answered with slots that are not what the gang has asked for."""


class Holes:
    """Free slots of some nodes. `free` and `gpus` count the slots of those in service."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.free_slots: list[int] = []  # by node: bit mask of the slots that may be taken now
        self.free_counts: list[int] = []
        self.offered: list[int] = []  # by node: bit mask of the slots in service, free or not
        self.sockets: list[tuple[int, ...]] = []  # by node: bit masks of slots that are near each other
        self.buckets: list[int] = [0]  # by number of free slots: bit mask of nodes
        self.racks: dict[str, int] = {}  # by name: bit mask of nodes
        self.kinds: dict[tuple[str, float], int] = {}  # by type and speed: bit mask of nodes
        self.layouts: dict[int, int] = {}  # by bit mask of the slots in service: bit mask of nodes
        self.memo: dict[Any, Any] = {}  # cache of what follows from the layouts; emptied when they change
        self.changes = 0  # grows whenever a slot is taken or given back
        self.free = 0
        self.gpus = 0
        self.pieces: tuple[int, ...] = ()  # slots on each of so many nodes, most first; (): as it comes

    def among(self, nodes: int) -> Holes:
        """The same, of these nodes only."""
        part = Holes()
        part.nodes, part.sockets, part.changes = self.nodes, self.sockets, self.changes
        part.kinds, part.pieces = self.kinds, self.pieces
        part.free_slots, part.free_counts, part.offered = self.free_slots, self.free_counts, self.offered
        part.buckets = [some & nodes for some in self.buckets]
        part.racks = {rack: some & nodes for rack, some in self.racks.items() if some & nodes}
        part.layouts = {slots: some & nodes for slots, some in self.layouts.items() if some & nodes}
        part.free = sum(some.bit_count() * free for free, some in enumerate(part.buckets))
        part.gpus = sum(some.bit_count() * slots.bit_count() for slots, some in part.layouts.items())
        return part

    def free_in(self, nodes: int) -> int:
        """How many slots are free on these nodes."""
        slots, buckets = 0, self.buckets
        for free in range(1, len(buckets)):
            if buckets[free]:
                slots += (buckets[free] & nodes).bit_count() * free
        return slots

    def free_by_rack(self) -> dict[str, int]:
        """How many slots are free in each rack."""
        return {rack: self.free_in(nodes) for rack, nodes in self.racks.items()}

    def hold(self, gpus: int, among: int = EVERYWHERE) -> bool:
        """Whether the gang, of so many GPUs, fits on these nodes now."""
        if not self.pieces:
            return gpus <= (self.free if among == EVERYWHERE else self.free_in(among))
        return self._have_room([(free, nodes & among) for free, nodes in enumerate(self.buckets)])

    def could_hold(self, gpus: int, among: int = EVERYWHERE) -> bool:
        """Whether it would fit on these nodes if nothing were running."""
        sizes = [(size, nodes & among) for size, nodes in self.sizes()]
        if not self.pieces:
            return gpus <= sum(size * nodes.bit_count() for size, nodes in sizes)
        return self._have_room(sizes)

    def _have_room(self, sizes: list[tuple[int, int]]) -> bool:
        """Whether each piece can have a node of its own, of nodes by their slots.

        No two pieces differ by more than one slot, so it is enough to count the nodes for the largest ones
        and those for any.
        """
        largest, smallest = self.pieces[0], self.pieces[-1]
        large = sum([nodes.bit_count() for size, nodes in sizes if size >= largest])
        if large < self.pieces.count(largest):
            return False
        return sum([nodes.bit_count() for size, nodes in sizes if size >= smallest]) >= len(self.pieces)

    def check_pieces(self, allocation: Allocation) -> None:
        """Raise a PlacementError if the gang is not in the pieces that it has asked for."""
        counts = tuple(sorted([slots.bit_count() for _, slots in allocation], reverse=True))
        if counts != self.pieces:
            raise PlacementError(f"{_each(counts)} slots on a node each, and not {_each(self.pieces)}")

    def shortage(self, gpus: int) -> str:
        """Why a gang that states on how many nodes it must be has no room, with the figures."""
        largest, smallest, number = self.pieces[0], self.pieces[-1], len(self.pieces)
        each = f"{largest}" if largest == smallest else f"{smallest} or {largest}"
        where = f"1 node with {each}" if number == 1 else f"{number} nodes with {each} each"
        there = sum(nodes.bit_count() for nodes in self.buckets[smallest:])
        have = "1 node has" if there == 1 else f"{there} nodes have"
        text = f"{self.free} free, needs {gpus} on {where}; {have} {smallest} free"
        if there >= number:
            there = sum(nodes.bit_count() for nodes in self.buckets[largest:])
            text += f", {there} of them {largest}, and {self.pieces.count(largest)} must"
        return text

    def best_hole(self) -> int:
        """The largest number of free slots on one node."""
        buckets = self.buckets
        for free in range(len(buckets) - 1, 0, -1):
            if buckets[free]:
                return free
        return 0

    def sizes(self) -> list[tuple[int, int]]:
        """(slots in service, bit mask of the nodes that have so many), largest first."""
        known: list[tuple[int, int]] | None = self.memo.get("sizes")
        if known is None:
            found: dict[int, int] = {}
            for slots, nodes in self.layouts.items():
                if slots and nodes:
                    size = slots.bit_count()
                    found[size] = found.get(size, 0) | nodes
            known = self.memo["sizes"] = sorted(found.items(), reverse=True)
        return known

    def fewest_nodes(self, gpus: int) -> int:
        """The fewest nodes that could hold so many GPUs if nothing were running; 0: there are too few."""
        if self.pieces:
            return len(self.pieces) if self.could_hold(gpus) else 0
        fewest, need = 0, gpus
        for size, nodes in self.sizes():
            count = nodes.bit_count()
            if need <= size * count:
                return fewest + -(-need // size)
            need -= size * count
            fewest += count
        return 0

    def pick(self, node: int, count: int) -> int:
        """So many free slots of a node: in the fullest socket that holds them, else anywhere."""
        free = self.free_slots[node]
        if count == self.free_counts[node]:
            return free
        if not self.sockets[node]:
            return lowest(free, count)
        fits = [
            (near.bit_count(), nth, near)
            for nth, group in enumerate(self.sockets[node])
            if (near := free & group).bit_count() >= count
        ]
        return lowest(min(fits)[2] if fits else free, count)

    def emptiest(self, gpus: int) -> Allocation:
        """The free slots of the fewest nodes that so many GPUs need, of those with most free slots.

        A gang that keeps these slots from others while it waits sees its hole only grow.
        """
        if self.pieces:
            return self._emptiest_in_pieces()
        sizes = self.sizes()
        if len(sizes) == 1:  # all nodes have the same size
            size, nodes = sizes[0]
            count = -(-gpus // size)
            return self._emptiest_alike(gpus, count, size) if count <= nodes.bit_count() else ()
        count = self.fewest_nodes(gpus)
        parts = []
        left, used = gpus, 0
        while count:
            node = self._emptiest_of(_fitting(sizes, used, left, count))
            used |= 1 << node
            take = min(left, self.free_counts[node])
            if take:
                parts.append((node, self.pick(node, take)))
            left -= min(left, self.offered[node].bit_count())
            count -= 1
        return tuple(parts)

    def _emptiest_alike(self, left: int, count: int, size: int) -> Allocation:
        parts: list[tuple[int, int]] = []
        for free in range(len(self.buckets) - 1, 0, -1):
            nodes = self.buckets[free]
            if nodes and count == 1:  # the common case needs no walk
                node = first(nodes)
                parts.append((node, self.pick(node, min(left, free))))
                return tuple(parts)
            for node in each(nodes):
                if not count:
                    return tuple(parts)
                parts.append((node, self.pick(node, min(left, free))))
                left -= size
                count -= 1
        return tuple(parts)

    def _emptiest_in_pieces(self) -> Allocation:
        parts, used = [], 0
        for piece in self.pieces:
            large = 0  # the nodes that can have so much free at all
            for size, nodes in self.sizes():
                if size >= piece:
                    large |= nodes
            if not large & ~used:
                return ()
            node = self._emptiest_of(large & ~used)
            used |= 1 << node
            if self.free_counts[node]:
                parts.append((node, self.pick(node, min(piece, self.free_counts[node]))))
        return tuple(parts)

    def _emptiest_of(self, nodes: int) -> int:
        for some in reversed(self.buckets):
            if some & nodes:
                return first(some & nodes)
        raise AssertionError(("no node of these is in service", nodes))


def _fitting(sizes: list[tuple[int, int]], used: int, left: int, count: int) -> int:
    """The nodes of which one may be chosen next so that `count` nodes in all can hold what is left."""
    others = count - 1
    for size, nodes in sizes:  # the largest that others could be
        number = min(others, (nodes & ~used).bit_count())
        left -= number * size
        others -= number
        if not others:
            break
    found = 0
    for size, nodes in sizes:
        if size >= left:
            found |= nodes
    return found & ~used


def _each(counts: tuple[int, ...]) -> str:
    return " + ".join(map(str, counts))


def first(nodes: int) -> int:
    """The position of the first node of a set."""
    return (nodes & -nodes).bit_length() - 1


def each(nodes: int) -> Iterator[int]:
    """The positions of a set of nodes, first to last."""
    while nodes:
        bit = nodes & -nodes
        nodes ^= bit
        yield bit.bit_length() - 1


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
