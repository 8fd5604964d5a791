"""Which runs hold slots of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.model import RunId


@dataclass(slots=True)
class Holders:
    """The runs by node. A Ledger keeps it up to date from the moment when somebody asks."""

    by_node: list[set[RunId]]

    @classmethod
    def among(cls, nodes: int, allocations: Mapping[RunId, Allocation]) -> Holders:
        made = cls([set() for _ in range(nodes)])
        for run_id, allocation in allocations.items():
            made.add(run_id, allocation)
        return made

    def add_node(self) -> None:
        self.by_node.append(set())

    def add(self, run_id: RunId, allocation: Allocation) -> None:
        for node, _ in allocation:
            self.by_node[node].add(run_id)

    def discard(self, run_id: RunId, allocation: Allocation) -> None:
        for node, _ in allocation:
            self.by_node[node].discard(run_id)
