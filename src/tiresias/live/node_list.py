"""The nodes, their GPUs and who holds them, as answers: at one instant, and made in slices.

With thousands of nodes the answer takes long. What changes is copied when the first slice is made; nothing
else of an answer depends on when its slices are made, so that others may have their turn in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiresias.core.model import INFINITY, JobId, Node, Phase, RunId
from tiresias.core.state import State
from tiresias.executors.gpus import Reading
from tiresias.live.answers import NodeInfo, SlotInfo
from tiresias.live.gpu_health import FOREIGN, GpuHealth
from tiresias.live.journal import Journal
from tiresias.live.machine import Machine
from tiresias.live.nodes import Nodes

SLICE = 64  # nodes that are described at once
READING_S = 1.0


@dataclass(slots=True)
class Holder:
    """A run that holds slots of a node."""

    slots: int  # bit mask
    run_id: RunId
    job_id: JobId
    is_saving: bool


@dataclass(slots=True)
class Seen:
    """A node as it was when the answer began."""

    node: Node
    holders: Sequence[Holder]  # by their layers
    free: int
    is_in: bool  # service
    is_silent: bool
    silence: str  # why nothing new starts there although it is in service; or empty

    def holding(self, index: int) -> list[Holder]:
        return [each for each in self.holders if each.slots >> index & 1]


class NodeList:
    def __init__(self, journal: Journal, gpu_health: GpuHealth, nodes: Nodes, machine: Machine):
        self._journal, self._gpu_health, self._nodes, self._machine = journal, gpu_health, nodes, machine
        self._readings: dict[str, tuple[float, Reading]] = {}  # by UUID, with the instant

    @property
    def _state(self) -> State:
        return self._journal.state

    def slices(self) -> Iterator[list[NodeInfo]]:
        """Every node that is known, then those that were found and cannot be used."""
        seen, out = self._seen(), dict(self._gpu_health.out_of_service)
        known = {each.node.name for each in seen}
        unusable = [item for item in self._nodes.unusable.items() if item[0] not in known]
        for begin in range(0, len(seen), SLICE):
            yield [self._node(each, out) for each in seen[begin : begin + SLICE]]
        yield [NodeInfo(name, 0, 0, False, reason, [], is_silent=True) for name, reason in unusable]

    def all(self) -> list[NodeInfo]:
        return [each for some in self.slices() for each in some]

    def states(self) -> Iterator[tuple[str, Counter[str]]]:
        """How many slots of each node are in which state."""
        out = self._gpu_health.out_of_service
        for each in self._seen():
            names = _slots_of(each.node)
            yield (
                each.node.name,
                Counter(_state(out.get(name, ""), each, each.holding(n)) for n, name in enumerate(names)),
            )

    def _seen(self) -> list[Seen]:
        state = self._state
        holders: list[list[Holder]] = [[] for _ in state.ledger.nodes]
        for run in sorted(state.runs.values(), key=lambda run: run.layer):
            is_saving = state.jobs[run.job_id].phase is Phase.STOPPING
            for position, slots in run.allocation:
                holders[position].append(Holder(slots, run.id, run.job_id, is_saving))
        found = []
        for position, node in enumerate(state.ledger.nodes):
            ledger = state.ledger_of(node.name)
            is_in, is_silent = ledger.in_service[position], ledger.silent[position]
            free = ledger.free_counts[position] if node.gpus else 0
            silence = self._nodes.silence(node.name)
            found.append(Seen(node, holders[position], free, is_in, is_silent, silence))
        return found

    def _node(self, seen: Seen, out: dict[str, str]) -> NodeInfo:
        node = seen.node
        slots = [
            self._slot(name, seen, seen.holding(index), out.get(name, ""))
            for index, name in enumerate(_slots_of(node))
        ]
        return NodeInfo(
            node.name,
            node.gpus,
            seen.free,
            not seen.is_in,
            "; ".join(filter(None, (seen.silence, out.get(node.name, "")))),
            slots,
            [list(group) for group in node.sockets],
            node.rack,
            node.gpu_type,
            node.cpus,
            node.memory_bytes,
            self._machine.addresses.get(node.name, ""),
            seen.is_silent,
        )

    def _slot(self, name: str, seen: Seen, holders: Sequence[Holder], reason: str) -> SlotInfo:
        gpu = self._machine.gpus.get(name)
        kind, memory = ("", 0) if gpu is None else (gpu.name, gpu.memory_bytes)
        now = self._reading("" if gpu is None else gpu.uuid)
        return SlotInfo(
            name,
            _state(reason, seen, holders),
            holders[0].job_id if holders else None,
            holders[0].run_id if holders else None,
            kind if seen.node.gpus else f"{seen.node.cpus_per_slot} cores",
            memory,
            reason,
            now.utilisation,
            now.memory_used_bytes,
            now.temperature_c,
            [each.job_id for each in holders],
        )

    def _reading(self, uuid: str) -> Reading:
        """What a GPU does, read from the driver at most once per second however many ask."""
        if self._machine.watch is None or not uuid:
            return Reading()
        at = self._journal.now()
        read_at, found = self._readings.get(uuid, (-INFINITY, Reading()))
        if at - read_at >= READING_S:
            found = self._machine.watch.reading(uuid)
            self._readings[uuid] = (at, found)
        return found


def _slots_of(node: Node) -> list[str]:
    return [f"{node.name}:{index}" for index in range(node.gpus or node.cpu_slots)]


def _state(reason: str, seen: Seen, holders: Sequence[Holder]) -> str:
    """The state of a slot; `reason` says why it is out of service."""
    if holders:
        return "saving" if all(each.is_saving for each in holders) else "busy"
    if reason:
        return "foreign" if reason.startswith(FOREIGN) else "out"
    return "free" if seen.is_in and not seen.is_silent else "drained"
