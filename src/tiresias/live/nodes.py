"""Nodes that come and go: what the source of nodes tells becomes facts.

Rules:
- A node keeps its name and its slots for ever. A GPU keeps its slot by its UUID; one that takes the place of
  another gets the slot of that. GPUs that a known node has beyond its slots are not used.
- Nothing new starts on a node that is silent or unusable. Its runs go on as far as anybody knows.
- Which nodes are silent is part of the State, so a manager that is started again knows it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, Node
from tiresias.executors.base import (
    FoundNode,
    GpusTroubled,
    NodeJoined,
    NodeReturned,
    NodeSilent,
    NodeUnusable,
    NodeUpdate,
)
from tiresias.executors.gpus import Gpu, least_memory
from tiresias.live.gpu_health import GpuHealth
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.machine import GPUS, Machine

log = logging.getLogger("tiresias")

CORES_PER_SLOT = 8  # of a node without GPUs


class Nodes:
    """The part that takes in what the source reports. On one machine there is none, and it does nothing."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal, machine: Machine, gpu_health: GpuHealth):
        self._journal, self._machine, self._gpu_health = journal, machine, gpu_health
        self.unusable: dict[str, str] = {}  # nodes that answer and must not be used, with the reasons
        self._heard_until: dict[str, float] = {}  # silent nodes: when that was reported

    def on(self, taken: Taken) -> list[Input]:
        return []

    def due(self, at: float) -> list[Input]:
        return []

    def begin(self) -> None:
        """Let the source know which nodes the journal knows."""
        if self._machine.source is not None:
            self._machine.source.expect([node.name for node in self._journal.state.ledger.nodes])

    def silent(self) -> dict[str, str]:
        """The nodes that do not answer or cannot be used, with the reasons."""
        names = (node.name for node in self._journal.state.ledger.nodes)
        return {name: reason for name in names if (reason := self.silence(name))} | self.unusable

    def silence(self, name: str) -> str:
        """Why nothing new starts on a node, if that is because it is silent or unusable; else empty."""
        ledger = self._journal.state.ledger_of(name)
        if not ledger.silent[ledger.position(name)]:
            return ""
        if name in self.unusable:
            return self.unusable[name]
        since = self._heard_until.get(name)
        return "it does not answer" + ("" if since is None else f" since {self._journal.now() - since:.0f} s")

    # --- what the source reports ----------------------------------------------------------------------

    def poll(self) -> Iterator[Input]:
        """The reports of the source since the last call; each input must be handled before the next one."""
        source = self._machine.source
        if source is None:
            return
        at = self._journal.now()
        facts: list[f.Fact] = []
        concerned: set[str] = set()
        uuids = dict(self._machine.uuids)
        for update in source.node_updates():
            name = update.node.name if isinstance(update, NodeJoined) else update.name
            if name in concerned:  # what follows depends on what these facts do
                yield Input(facts)
                facts, concerned = [], set()
            concerned.add(name)
            facts += self._facts_of(update, at)
        if self._machine.uuids != uuids:
            self._journal.keep_setting(GPUS, dict(self._machine.uuids))
        if facts:
            yield Input(facts)

    def _facts_of(self, update: NodeUpdate, at: float) -> Sequence[f.Fact]:
        if isinstance(update, NodeJoined):
            return self._joined(update.node, at)
        name = update.name
        if isinstance(update, NodeUnusable):
            self.unusable[name] = update.reason
            log.error("node %s is not used: %s", name, update.reason)
        known = self._known(name)
        if known is None:
            return []
        if isinstance(update, NodeReturned):
            return self._back(name, at)
        if isinstance(update, NodeSilent | NodeUnusable):
            return self._fell_silent(name, at)
        assert isinstance(update, GpusTroubled)
        return self._gpu_health.trouble(known, update.reasons, at)

    def _known(self, name: str) -> Node | None:
        ledger = self._journal.state.ledger
        return ledger.nodes[ledger.position(name)] if ledger.has_node(name) else None

    def _is_silent(self, name: str) -> bool:
        ledger = self._journal.state.ledger_of(name)
        return ledger.silent[ledger.position(name)]

    def _fell_silent(self, name: str, at: float) -> list[f.Fact]:
        if self._is_silent(name):
            return []
        self._heard_until[name] = at
        log.error("node %s does not answer; nothing new starts there", name)
        return [f.NodeFellSilent(at, name)]

    def _back(self, name: str, at: float) -> list[f.Fact]:
        self.unusable.pop(name, None)
        self._heard_until.pop(name, None)
        if not self._is_silent(name):
            return []
        log.info("node %s answers again", name)
        return [f.NodeReturned(at, name)]

    def _joined(self, found: FoundNode, at: float) -> list[f.Fact]:
        name = found.name
        if why := misnamed(name):
            self.unusable[name] = why
            return []
        self.unusable.pop(name, None)
        self._machine.addresses[name] = found.address
        known = self._known(name)
        if known is None:
            return self._added(found, at)
        self._take_gpus(known, found.gpus)
        facts: list[f.Fact] = []
        now = _as_found(known, found)
        if now != known:
            facts.append(f.NodeChanged(at, now))
        facts += self._gpu_health.slot_changes(known, at)
        return [*facts, *self._back(name, at)]

    def _added(self, found: FoundNode, at: float) -> list[f.Fact]:
        cores = min(CORES_PER_SLOT, found.cpus) or CORES_PER_SLOT
        node = _as_found(Node(found.name, len(found.gpus), cpus=found.cpus, cpus_per_slot=cores), found)
        for index, gpu in enumerate(found.gpus):
            slot = f"{node.name}:{index}"
            self._machine.gpus[slot] = gpu
            self._machine.uuids[slot] = gpu.uuid
        log.info("node %s has joined with %d GPUs", node.name, node.gpus)
        return [f.NodeAdded(at, node), *self._gpu_health.slot_changes(node, at)]

    def _take_gpus(self, node: Node, gpus: Sequence[Gpu]) -> None:
        """Give each GPU its slot on a node that is known."""
        slots = [f"{node.name}:{index}" for index in range(node.gpus)]
        for slot in slots:
            self._machine.gpus.pop(slot, None)
        places = assigned(slots, self._machine.uuids, gpus)
        self._machine.gpus |= places
        self._machine.uuids |= {slot: gpu.uuid for slot, gpu in places.items()}
        if len(gpus) > len(slots):
            more = len(gpus) - len(slots)
            log.warning("node %s has %d GPUs more than when it joined; they are not used", node.name, more)


def assigned(slots: Sequence[str], uuids: Mapping[str, str], gpus: Sequence[Gpu]) -> dict[str, Gpu]:
    """The GPUs by slot: those that are known by their UUID, then the others in the slots that are left."""
    by_uuid = {uuids[slot]: slot for slot in slots if uuids.get(slot)}
    places = {by_uuid[gpu.uuid]: gpu for gpu in gpus if gpu.uuid in by_uuid}
    left = iter([slot for slot in slots if slot not in places])
    for gpu in gpus:
        if gpu.uuid not in by_uuid and (slot := next(left, "")):
            places[slot] = gpu
    return places


def misnamed(name: str) -> str:
    """Why a node cannot have this name; empty if it can."""
    if not name or len(name) > 200 or not all(each.isalnum() or each in "-_." for each in name):
        return "a name has letters, digits, '-', '_' and '.'; start the node under such a name"
    return ""


def _as_found(known: Node, found: FoundNode) -> Node:
    """The node with the properties that it states; its slots stay as they are."""
    has_gpus = known.gpus > 0
    sockets = tuple(group for group in found.sockets if all(index < known.gpus for index in group))
    return replace(
        known,
        rack=found.rack,
        gpu_type=found.gpu_type if has_gpus else "",
        cpus=found.cpus if has_gpus else known.cpus,
        memory_bytes=found.memory_bytes,
        gpu_memory_bytes=least_memory(found.gpus) or known.gpu_memory_bytes,
        sockets=sockets if has_gpus else (),
    )
