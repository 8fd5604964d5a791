"""What can be scheduled on this machine: its nodes, and the GPU behind each slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import JobId, Node
from tiresias.executors.base import Slot
from tiresias.executors.cgroup_parent import Limiting
from tiresias.executors.gpus import Gpu, Reading
from tiresias.executors.topology import Topology

NO_LIMITING = Limiting(*["its executor has no cgroups"] * 2)
MISSING = "not found when the manager started"


class GpuWatch(Protocol):
    """Reports the condition of GPUs while the manager runs."""

    def foreign(self, uuids: list[str]) -> Mapping[str, list[int]]:
        """The GPUs that are used by processes of others, with the pids of these processes."""

    def misused(self, uuids: list[str]) -> Mapping[str, list[tuple[JobId, int]]]:
        """The GPUs that are used by runs to which they were not given, with the jobs and the pids."""

    def unhealthy(self, uuids: list[str]) -> Mapping[str, str]:
        """The GPUs that must not be used, with the reasons."""

    def reading(self, uuid: str) -> Reading:
        """What a GPU does at present."""
        return Reading()


@dataclass(slots=True)
class Machine:
    """`gpus` is by slot (`node:index`). A slot that the journal knows and that is missing has no GPU now."""

    nodes: list[Node]
    gpus: dict[str, Gpu] = field(default_factory=dict)
    watch: GpuWatch | None = None  # None: the GPUs are fake, and their condition never changes
    limiting: Limiting = NO_LIMITING  # whether its runs can be limited
    topology: Topology = Topology()  # how the GPUs are connected; the nodes have its groups by slot

    @classmethod
    def fake(cls, count: int, node: str = "box") -> Machine:
        gpus = {f"{node}:{index}": Gpu(index, "", "fake", 0) for index in range(count)}
        return cls([Node(node, count)], gpus)

    def slots(self, allocation: Allocation, ledger: Ledger) -> tuple[Slot, ...]:
        """The slots of an allocation, with the UUIDs of their GPUs."""
        return tuple(self.slot(name) for name in ledger.slot_names(allocation))

    def slot(self, name: str) -> Slot:
        node, _, index = name.rpartition(":")
        gpu = self.gpus.get(name)
        return Slot(node, int(index), "" if gpu is None else gpu.uuid)
