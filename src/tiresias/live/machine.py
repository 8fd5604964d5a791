"""What can be scheduled: the nodes, and the GPU behind each slot.

On one machine all of it is known when the manager starts. With many machines a source tells of nodes that
come and go (executors/base.py), and `live/nodes.py` takes that in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tiresias.core.model import JobId, Node
from tiresias.executors.base import NodeSource, Slot
from tiresias.executors.cgroup_parent import Limiting
from tiresias.executors.gpus import Gpu, Reading
from tiresias.executors.topology import Topology

NO_LIMITING = Limiting(*["its executor has no cgroups"] * 2)
MISSING = "not found when the manager started"
GPUS = "gpus"  # the setting: which slot is which GPU


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
    """`gpus` is by slot (`node:index`). A slot that the journal knows and that is missing has no GPU now.

    `uuids` has those of all slots that were ever known, also on nodes that have not joined yet.
    """

    nodes: list[Node]
    gpus: dict[str, Gpu] = field(default_factory=dict)
    watch: GpuWatch | None = None  # None: the GPUs are fake, or a source tells of their condition
    limiting: Limiting = NO_LIMITING  # whether its runs can be limited
    topology: Topology = Topology()  # how the GPUs are connected; the nodes have its groups by slot
    source: NodeSource | None = None  # None: the nodes are those of this machine, and never change
    uuids: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)  # by node, at which others can reach it

    @classmethod
    def fake(cls, count: int, node: str = "box") -> Machine:
        gpus = {f"{node}:{index}": Gpu(index, "", "fake", 0) for index in range(count)}
        return cls([Node(node, count)], gpus)

    def slots(self, names: Iterable[str]) -> tuple[Slot, ...]:
        """These slots, with the UUIDs of their GPUs."""
        return tuple(self.slot(name) for name in names)

    def slot(self, name: str) -> Slot:
        node, _, index = name.rpartition(":")
        gpu = self.gpus.get(name)
        uuid = self.uuids.get(name, "") if gpu is None else gpu.uuid
        return Slot(node, int(index), uuid, self._machine_of(node))

    def _machine_of(self, node: str) -> str:
        """The machine, if it has another name than the node: GPUs that came later are a node of their own."""
        if self.source is not None or len(self.nodes) < 2 or node == self.nodes[0].name:
            return ""
        return self.nodes[0].name
