"""What there is to schedule: nodes, and which GPU each of their slots is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import Node
from tiresias.executors.base import Slot
from tiresias.executors.gpus import Gpu
from tiresias.executors.topology import Topology

MISSING = "not found when the manager started"


class GpuWatch(Protocol):
    """Who tells what became of GPUs while the manager runs."""

    def foreign(self, uuids: list[str]) -> Mapping[str, list[int]]:
        """GPUs that processes other than our runs' use, and their pids."""

    def unhealthy(self, uuids: list[str]) -> Mapping[str, str]:
        """Those of the GPUs that must not be used, and why."""


@dataclass(slots=True)
class Machine:
    """`gpus` by slot (`node:index`). A slot of the journal that is not here has lost its GPU."""

    nodes: list[Node]
    gpus: dict[str, Gpu] = field(default_factory=dict)
    watch: GpuWatch | None = None  # None: fake GPUs, nothing can become of them
    topology: Topology = Topology()  # what joins the GPUs; the nodes have its groups by slot

    @classmethod
    def fake(cls, count: int, node: str = "box") -> Machine:
        gpus = {f"{node}:{index}": Gpu(index, "", "fake", 0) for index in range(count)}
        return cls([Node(node, count)], gpus)

    def slots(self, allocation: Allocation, ledger: Ledger) -> tuple[Slot, ...]:
        """The allocation with the GPUs' own names."""
        return tuple(self.slot(name) for name in ledger.slot_names(allocation))

    def slot(self, name: str) -> Slot:
        node, _, index = name.rpartition(":")
        gpu = self.gpus.get(name)
        return Slot(node, int(index), "" if gpu is None else gpu.uuid)
