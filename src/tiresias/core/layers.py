"""Slots that several runs share, each on a layer of its own.

A slot has one or more layers, and one run may hold it on each of them; the first layer is 0. A slot is free
only when it is free on all layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiresias.core.facts import Allocation
from tiresias.core.model import Node, RunId


@dataclass(slots=True)
class Layers:
    """Which slots are taken on which layer. A Ledger has it once a run is on a layer other than 0."""

    nodes: Sequence[Node]
    _taken: list[list[int]]  # by layer and node: bit mask of slots
    _of: dict[RunId, int] = field(default_factory=dict)  # of runs that are not on layer 0

    @classmethod
    def among(cls, nodes: Sequence[Node], allocations: Mapping[RunId, Allocation]) -> Layers:
        """`allocations`: the runs so far, all of which are on layer 0."""
        made = cls(nodes, [[0] * len(nodes)])
        for run_id, allocation in allocations.items():
            made.occupy(run_id, allocation, 0)
        return made

    def add_node(self) -> None:
        for layer in self._taken:
            layer.append(0)

    def of(self, run_id: RunId) -> int:
        """The layer on which a run holds its slots."""
        return self._of.get(run_id, 0)

    def is_open(self, allocation: Allocation, layer: int) -> bool:
        """Whether no run holds any of these slots on this layer."""
        if layer >= len(self._taken):
            return True
        taken = self._taken[layer]
        return not any(taken[node] & slots for node, slots in allocation)

    def taken(self, node: int) -> int:
        """The slots of a node that runs hold, on any layer."""
        taken = 0
        for layer in self._taken:
            taken |= layer[node]
        return taken

    def occupy(self, run_id: RunId, allocation: Allocation, layer: int) -> None:
        """Give the run these slots, none of which may be taken on this layer."""
        while len(self._taken) <= layer:
            self._taken.append([0] * len(self.nodes))
        taken = self._taken[layer]
        for node, slots in allocation:
            name = self.nodes[node].name
            assert not slots & taken[node], ("slots taken twice", run_id, name, slots, layer)
            taken[node] |= slots
        if layer:
            self._of[run_id] = layer

    def vacate(self, run_id: RunId, allocation: Allocation) -> Allocation:
        """Take the slots from the run; returns those that no run holds on another layer."""
        own, left = self._taken[self._of.pop(run_id, 0)], []
        for node, slots in allocation:
            own[node] &= ~slots
            left.append((node, slots & ~self.taken(node)))
        return tuple(left)
