"""Which slots and nodes are out of service, and why: drained, missing, unhealthy, used by others, or blamed.

Rules:
- A GPU is blamed when `withdraw_after` different jobs have died of it since a run last finished there. It
  stays out of service until an administrator restores it.
- A GPU that the driver reports as unhealthy, that is missing at a start, or that processes of others or
  runs to which it was not given use, comes back by itself when that is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Node
from tiresias.live.journal import Exit, Input, Journal, Taken
from tiresias.live.machine import MISSING, Machine
from tiresias.live.settings import Settings

OUT_OF_SERVICE = "out_of_service"  # the setting: the reason by slot or node
FAULTS = "gpu_faults"  # the setting: by slot, the jobs that died of it since a run last finished there
FOREIGN = "used by others: "
UNHEALTHY = "unhealthy: "


class GpuHealth:
    """The part that takes slots out of service and restores them. `out_of_service` has the reasons."""

    def __init__(self, journal: Journal, machine: Machine, settings: Settings):
        self._journal, self._machine, self._settings = journal, machine, settings
        self.out_of_service: dict[str, str] = journal.store.setting(OUT_OF_SERVICE, {})
        self._faults: dict[str, list[int]] = journal.store.setting(FAULTS, {})
        self._checked_at = -INFINITY

    # --- withdrawing and restoring ---------------------------------------------------------------------

    def withdraw(self, slot: str, reason: str) -> Input:
        node, index = split_slot(slot)
        self.out_of_service[slot] = reason
        self._keep_reasons()
        return Input([f.SlotDrained(self._journal.now(), node, index)])

    def restore(self, slot: str) -> Input:
        node, index = split_slot(slot)
        self.out_of_service.pop(slot, None)
        self._faults.pop(slot, None)
        self._keep_reasons()
        return Input([f.SlotRestored(self._journal.now(), node, index)])

    def drain_node(self, node: str, reason: str) -> Input:
        self.out_of_service[node] = reason
        self._keep_reasons()
        return Input([f.NodeDrained(self._journal.now(), node)])

    def restore_node(self, node: str) -> Input:
        self.out_of_service.pop(node, None)
        self._keep_reasons()
        return Input([f.NodeRestored(self._journal.now(), node)])

    def _keep_reasons(self) -> None:
        self._journal.keep_setting(OUT_OF_SERVICE, dict(self.out_of_service))
        self._journal.keep_setting(FAULTS, dict(self._faults))

    # --- GPUs of which jobs die ------------------------------------------------------------------------

    def on(self, taken: Taken) -> list[Input]:
        """Take GPUs out of service on which different jobs keep dying."""
        return [] if taken.exit is None else list(self._judge(taken.exit))

    def _judge(self, exit: Exit) -> Iterator[Input]:
        outcome, id = exit.outcome, exit.job.id
        has_changed = False
        for slot in exit.slots:
            if outcome.blames_gpu:
                died = self._faults.setdefault(slot, [])
                if id not in died:
                    died.append(id)
                    has_changed = True
                if len(died) >= self._settings.withdraw_after and slot not in self.out_of_service:
                    jobs = ", ".join(map(str, died))
                    yield self.withdraw(
                        slot, f"jobs {jobs} died of it: {outcome.evidence or outcome.sentence}"
                    )
            elif outcome.exit is ExitCause.FINISHED and self._faults.pop(slot, None) is not None:
                has_changed = True
        if has_changed:
            self._journal.keep_setting(FAULTS, dict(self._faults))

    # --- what the driver reports -----------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        return INFINITY if self._machine.watch is None else self._checked_at + self._settings.gpu_check_s

    def due(self, at: float) -> Iterator[Input]:
        """Ask the driver now and then which GPUs are unhealthy or used by others."""
        if self._machine.watch is None or at < self.next_due_at:
            return
        self._checked_at = at
        by_uuid = {gpu.uuid: slot for slot, gpu in self._machine.gpus.items() if gpu.uuid}
        unhealthy = self._machine.watch.unhealthy(list(by_uuid))
        wrong = {by_uuid[uuid]: f"{UNHEALTHY}{reason}" for uuid, reason in unhealthy.items()}
        for uuid, pids in self._machine.watch.foreign(list(by_uuid)).items():
            wrong.setdefault(by_uuid[uuid], FOREIGN + "pid " + ", ".join(map(str, pids)))
        for uuid, uses in self._machine.watch.misused(list(by_uuid)).items():
            who = ", ".join(f"job {id} (pid {pid})" for id, pid in uses)
            wrong.setdefault(by_uuid[uuid], f"{FOREIGN}{who}, to which it was not given")
        for slot, reason in wrong.items():
            if slot not in self.out_of_service:
                yield self.withdraw(slot, reason)
        for slot, reason in list(self.out_of_service.items()):
            is_watched = slot in by_uuid.values()  # a GPU that could not be reached at the start is not
            if is_watched and reason.startswith((FOREIGN, UNHEALTHY)) and slot not in wrong:
                yield self.restore(slot)

    # --- after a restart -------------------------------------------------------------------------------

    def machine_changes(self, at: float) -> list[f.Fact]:
        """How the machine differs from what the journal knows: slots that are missing, back or new."""
        if self._machine.source is not None:
            return []  # it tells of every node by itself
        known = {node.name: node for node in self._journal.state.ledger.nodes}
        found = {node.name: node for node in self._machine.nodes}
        facts: list[f.Fact] = [f.NodeAdded(at, node) for name, node in found.items() if name not in known]
        for node in (known | found).values():
            facts += self.slot_changes(node, at)
        facts += self._sized(at, known)  # with the groups and cores that are known, which the others change
        return [*facts, *self._regrouped(at, known), *self._cores_counted(at, known)]

    def slot_changes(self, node: Node, at: float) -> list[f.Fact]:
        """The slots of a node whose GPUs are missing or unhealthy, or are back, since the last look."""
        facts: list[f.Fact] = []
        for index in range(node.gpus):
            slot = f"{node.name}:{index}"
            gpu = self._machine.gpus.get(slot)
            reason = MISSING if gpu is None else gpu.unhealthy and UNHEALTHY + gpu.unhealthy
            if reason and slot not in self.out_of_service:
                self.out_of_service[slot] = reason
                facts.append(f.SlotDrained(at, node.name, index))
            elif not reason and self.out_of_service.get(slot, "").startswith((MISSING, UNHEALTHY)):
                del self.out_of_service[slot]
                facts.append(f.SlotRestored(at, node.name, index))
        if facts:
            self._keep_reasons()
        return facts

    def trouble(self, node: Node, reasons: Mapping[int, str], at: float) -> list[f.Fact]:
        """What the node itself has reported: its GPUs that must not be used at present, and no others."""
        facts: list[f.Fact] = []
        for index in range(node.gpus):
            slot, reason = f"{node.name}:{index}", reasons.get(index, "")
            if reason and slot not in self.out_of_service:
                is_foreign = reason.startswith(FOREIGN)
                self.out_of_service[slot] = reason if is_foreign else UNHEALTHY + reason
                facts.append(f.SlotDrained(at, node.name, index))
            elif not reason and self.out_of_service.get(slot, "").startswith((FOREIGN, UNHEALTHY)):
                del self.out_of_service[slot]
                facts.append(f.SlotRestored(at, node.name, index))
        if facts:
            self._keep_reasons()
        return facts

    def _regrouped(self, at: float, known: Mapping[str, Node]) -> list[f.Fact]:
        """Nodes whose groups of GPUs have changed. A node with missing GPUs keeps the groups that it has."""
        facts: list[f.Fact] = []
        for node in self._machine.nodes:
            gpus = [self._machine.gpus.get(f"{node.name}:{index}") for index in range(node.gpus)]
            is_whole = all(gpu is not None and (gpu.uuid or self._machine.watch is None) for gpu in gpus)
            if node.name in known and is_whole and known[node.name].sockets != node.sockets:
                facts.append(f.NodeRegrouped(at, node.name, node.sockets))
        return facts

    def _cores_counted(self, at: float, known: Mapping[str, Node]) -> list[f.Fact]:
        """Nodes with another number of CPU cores than the journal knows; 0 means that it is not known."""
        return [
            f.NodeCoresCounted(at, node.name, node.cpus)
            for node in self._machine.nodes
            if node.cpus and node.name in known and known[node.name].cpus != node.cpus
        ]

    def _sized(self, at: float, known: Mapping[str, Node]) -> list[f.Fact]:
        """Nodes whose GPUs tell of another memory than the journal knows, as after an upgrade."""
        changed: list[f.Fact] = []
        for node in self._machine.nodes:
            before = known.get(node.name)
            if before is not None and node.gpu_memory_bytes not in (0, before.gpu_memory_bytes):
                changed.append(f.NodeChanged(at, replace(before, gpu_memory_bytes=node.gpu_memory_bytes)))
        return changed


def split_slot(slot: str) -> tuple[str, int]:
    """The node and the index of a slot that is written as `node:index`."""
    node, _, index = slot.rpartition(":")
    return node, int(index)
