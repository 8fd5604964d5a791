"""Which run holds which slots.

A slot is free only when its run has been released. A node, or one slot of it, that is withdrawn is not
offered any more; what a run holds of it stays with the run until its release. Nodes are kept in buckets by
how many of their slots are free (bit masks over node positions), so a placer finds the best fit without a
scan. Takes and releases can be undone: `mark = ledger.checkpoint()`, try things, `ledger.rollback(mark)`.
holes.py has what placers see.

Runs may share slots, each on a layer of its own (see layers.py). The memory of a slot must be enough for all
of them together.

Slots of CPUs are in a Ledger of their own, whose nodes have the same positions: if the first node of an
allocation has no GPUs, its slots are of CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tiresias.core.facts import Allocation
from tiresias.core.holders import Holders
from tiresias.core.holes import Holes, lowest
from tiresias.core.layers import Layers
from tiresias.core.model import Cluster, Demand, Node, RunId

__all__ = ["Ledger", "cpu_ledger", "cpu_node", "lowest"]


def cpu_ledger(nodes: Sequence[Node]) -> Ledger | None:
    """The Ledger of CPU slots, in which nodes with GPUs have no slots; None if there are none at all."""
    return Ledger(Cluster([cpu_node(node) for node in nodes])) if any(n.cpu_slots for n in nodes) else None


def cpu_node(node: Node) -> Node:
    """The node as the Ledger of CPU slots has it."""
    return replace(node, gpus=node.cpu_slots, sockets=())


class Ledger(Holes):
    """Free and taken slots of a cluster. `free` and `gpus` count only slots in service."""

    def __init__(self, cluster: Cluster):
        super().__init__()
        self.in_service: list[bool] = []  # by node: it is not drained
        self.silent: list[bool] = []  # by node: it does not answer
        self.out_slots: list[int] = []  # by node: bit mask of slots withdrawn one by one
        self._suited: dict[
            tuple[str | None, float, float, int, int], int
        ] = {}  # nodes by the demand that they suit
        self.allocations: dict[RunId, Allocation] = {}
        self._position: dict[str, int] = {}
        self.capacity = 0  # slots in service, plus withdrawn ones that runs still hold
        self._holders: Holders | None = None  # None until the first call of holders()
        self._rack_of: list[str] = []  # by node
        self._rack_free: dict[str, int] | None = None  # None until the first call of free_by_rack()
        self.layers = 1  # how many runs may hold one slot; runs that hold it already stay
        self._shared: Layers | None = None  # None while all runs were on layer 0
        self._memory: dict[RunId, int] = {}  # what runs need of the memory of each GPU, where that is known
        self._undo: list[Callable[[], None]] = []
        self._trials = 0
        for node in cluster.nodes:
            self.add_node(node)

    # --- nodes -----------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        assert node.name not in self._position, ("two nodes of one name", node.name)
        assert node.gpus >= 0, ("fewer GPUs than none", node)
        position = len(self.nodes)
        self._position[node.name] = position
        self.nodes.append(node)
        self.free_slots.append((1 << node.gpus) - 1)
        self.free_counts.append(node.gpus)
        self.offered.append((1 << node.gpus) - 1)
        self.in_service.append(True)
        self.silent.append(False)
        self.out_slots.append(0)
        while len(self.buckets) <= node.gpus:
            self.buckets.append(0)
        self.buckets[node.gpus] |= 1 << position
        self._rack_of.append("")
        self._index(position, node)
        self.sockets.append(tuple(sum(1 << slot for slot in group) for group in node.sockets))
        self.layouts[self.offered[position]] = self.layouts.get(self.offered[position], 0) | 1 << position
        self._suited.clear()
        self.memo.clear()
        if self._holders is not None:
            self._holders.add_node()
        if self._shared is not None:
            self._shared.add_node()
        self.free += node.gpus
        self.gpus += node.gpus
        self.capacity += node.gpus

    def regroup(self, node: str, sockets: tuple[tuple[int, ...], ...]) -> None:
        """Set the node's groups of slots that are near each other."""
        position = self._position[node]
        assert all(slot < self.nodes[position].gpus for group in sockets for slot in group), (node, sockets)
        self.nodes[position] = replace(self.nodes[position], sockets=sockets)
        self.sockets[position] = tuple(sum(1 << slot for slot in group) for group in sockets)
        self.memo.clear()

    def recount_cores(self, node: str, cpus: int) -> None:
        """Set the number of CPU cores of a node with GPUs; on other nodes they are slots."""
        position = self._position[node]
        assert self.nodes[position].gpus, ("the cores of this node are slots", node, cpus)
        self.nodes[position] = replace(self.nodes[position], cpus=cpus)
        self._suited.clear()
        self.memo.clear()

    def change_node(self, node: Node) -> None:
        """Set the properties of a node that has as many slots as before."""
        position = self._position[node.name]
        before = self.nodes[position]
        assert node.gpus == before.gpus, ("a node with other slots", before, node)
        self.nodes[position] = node
        self.sockets[position] = tuple(sum(1 << slot for slot in group) for group in node.sockets)
        self.racks.clear()
        self.kinds.clear()
        self._rack_free = None
        for where, other in enumerate(self.nodes):  # in the order in which they would be added
            self._index(where, other)
        self._suited.clear()
        self.memo.clear()

    def _index(self, position: int, node: Node) -> None:
        """Note the rack and the kind of a node."""
        if node.gpus:
            self.racks[node.rack] = self.racks.get(node.rack, 0) | 1 << position
            kind = node.gpu_type, node.speed
            self.kinds[kind] = self.kinds.get(kind, 0) | 1 << position
        self._rack_of[position] = node.rack
        self._rack_free = None

    def has_node(self, node: str) -> bool:
        return node in self._position

    def position(self, node: str) -> int:
        return self._position[node]

    def withdraw(self, node: str) -> None:
        """Take the node out of service: its free slots are not offered any more."""
        position = self._position[node]
        self.in_service[position] = False
        self._offer(position)

    def restore(self, node: str) -> None:
        position = self._position[node]
        self.in_service[position] = True
        self._offer(position)

    def silence(self, node: str) -> None:
        """The node does not answer: as if it were withdrawn, also while it is restored."""
        position = self._position[node]
        self.silent[position] = True
        self._offer(position)

    def hear(self, node: str) -> None:
        """The node answers again."""
        position = self._position[node]
        self.silent[position] = False
        self._offer(position)

    def is_usable(self, position: int) -> bool:
        """Whether something new may start on a node: it is in service and answers."""
        return self.in_service[position] and not self.silent[position]

    def withdraw_slot(self, node: str, index: int) -> None:
        """The same for one slot; it stays withdrawn when its node is restored."""
        position = self._position[node]
        assert index < self.nodes[position].gpus, ("no such slot", node, index)
        self.out_slots[position] |= 1 << index
        self._offer(position)

    def restore_slot(self, node: str, index: int) -> None:
        position = self._position[node]
        self.out_slots[position] &= ~(1 << index)
        self._offer(position)

    def _offer(self, position: int) -> None:
        """Update all counts to the slots of the node that are in service."""
        everything = (1 << self.nodes[position].gpus) - 1
        offered = everything & ~self.out_slots[position] if self.is_usable(position) else 0
        taken = 0
        for run_id in self.holders(position):
            for node, slots in self.allocations[run_id]:
                if node == position:
                    taken |= slots
        before, self.offered[position] = self.offered[position], offered
        bit = 1 << position
        self.memo.clear()
        self.layouts[before] ^= bit
        if not self.layouts[before]:
            del self.layouts[before]
        self.layouts[offered] = self.layouts.get(offered, 0) | bit
        self.gpus += offered.bit_count() - before.bit_count()
        self.capacity += (offered | taken).bit_count() - (before | taken).bit_count()
        self._set_free(position, offered & ~taken)

    # --- slots -----------------------------------------------------------------------------------------

    def take(
        self, run_id: RunId, allocation: Allocation, layer: int = 0, memory_bytes: int | None = None
    ) -> None:
        """Give these slots to the run; each must be free on this layer, and on a node in service."""
        assert run_id not in self.allocations, ("one run, two allocations", run_id)
        if layer and self._shared is None:
            self._shared = Layers.among(self.nodes, self.allocations)
        layers = self._shared
        if layers is not None:
            layers.occupy(run_id, allocation, layer)
        for node, slots in allocation:
            free = self.free_slots[node]
            gone = slots & ~self.offered[node]
            assert not gone, ("slots out of service", run_id, self.nodes[node].name, gone)
            assert layers is not None or slots & free == slots, (
                "slots taken twice",
                run_id,
                self.nodes[node].name,
                slots,
                free,
            )
            self._set_free(node, free & ~slots)
        self.allocations[run_id] = allocation
        if memory_bytes is not None:
            self._memory[run_id] = memory_bytes
        if self._holders is not None:
            self._holders.add(run_id, allocation)
        if self._trials:
            self._undo.append(lambda: self._give_back(run_id))

    def release(self, run_id: RunId) -> None:
        """Free the slots of a run whose exit is known."""
        if self._trials:
            self._release_in_trial(run_id)
        else:
            self._give_back(run_id)

    def _release_in_trial(self, run_id: RunId) -> None:
        allocation, layer = self.allocations[run_id], self.layer_of(run_id)
        memory_bytes = self._memory.get(run_id)
        self._give_back(run_id)
        self._undo.append(lambda: self._unrelease(run_id, allocation, layer, memory_bytes))

    def hide(self, allocation: Allocation) -> None:
        """Let free slots look taken, until `show`."""
        for node, slots in allocation:
            free = self.free_slots[node]
            assert slots & free == slots, ("slots that are not free", self.nodes[node].name, slots, free)
            self._set_free(node, free & ~slots)

    def show(self, allocation: Allocation) -> None:
        for node, slots in allocation:
            self._set_free(node, self.free_slots[node] | slots)

    def is_open(self, allocation: Allocation, layer: int, memory_bytes: int | None) -> bool:
        """Whether a run that needs so much of the memory of each GPU may take these slots on this layer."""
        if self._shared is None and not layer:
            free = self.free_slots
            return all(free[node] & slots == slots for node, slots in allocation)
        if self._shared is not None and not self._shared.is_open(allocation, layer):
            return False
        if any(slots & ~self.offered[node] for node, slots in allocation):
            return False
        return all(self._has_memory(node, slots, memory_bytes) for node, slots in allocation)

    def _has_memory(self, node: int, slots: int, memory_bytes: int | None) -> bool:
        most = self.nodes[node].gpu_memory_bytes
        if not most or not slots & ~self.free_slots[node]:
            return True  # it is not known how much there is, or it is alone
        need = most if memory_bytes is None else memory_bytes
        for index in range(slots.bit_length()):
            if slots >> index & 1:
                used = [self._memory.get(each, most) for each in self.holders_of_slot(node, index)]
                if need + sum(used) > most:
                    return False
        return True

    def layer_of(self, run_id: RunId) -> int:
        """The layer on which a run holds its slots."""
        return 0 if self._shared is None else self._shared.of(run_id)

    def holders_of_slot(self, node: int, index: int) -> list[RunId]:
        """The runs that hold one slot, on any layer."""
        found = []
        for run_id in self.holders(node):
            for where, slots in self.allocations[run_id]:
                if where == node and slots >> index & 1:
                    found.append(run_id)
        return sorted(found)

    def _give_back(self, run_id: RunId) -> None:
        allocation = self.allocations.pop(run_id)
        if self._memory:
            self._memory.pop(run_id, None)
        if self._holders is not None:
            self._holders.discard(run_id, allocation)
        if self._shared is not None:
            allocation = self._shared.vacate(run_id, allocation)
        for node, slots in allocation:
            offered = self.offered[node]
            if slots & ~offered:
                self.capacity -= (slots & ~offered).bit_count()
                slots &= offered
            self._set_free(node, self.free_slots[node] | slots)

    def _set_free(self, node: int, slots: int) -> None:
        counts, buckets, bit = self.free_counts, self.buckets, 1 << node
        before, now = counts[node], slots.bit_count()
        self.free_slots[node] = slots
        counts[node] = now
        buckets[before] ^= bit
        buckets[now] |= bit
        self.free += now - before
        if self._rack_free is not None:
            self._rack_free[self._rack_of[node]] += now - before
        self.changes += 1

    def _unrelease(self, run_id: RunId, allocation: Allocation, layer: int, memory_bytes: int | None) -> None:
        layers = self._shared
        for node, slots in allocation:
            gone = slots & ~self.offered[node]
            if layers is not None:
                gone &= ~layers.taken(node)  # withdrawn slots that others hold have stayed
            self.capacity += gone.bit_count()
            self._set_free(node, self.free_slots[node] & ~slots)
        if layers is not None:
            layers.occupy(run_id, allocation, layer)
        self.allocations[run_id] = allocation
        if memory_bytes is not None:
            self._memory[run_id] = memory_bytes
        if self._holders is not None:
            self._holders.add(run_id, allocation)

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

    # --- queries ---------------------------------------------------------------------------------------

    def free_by_rack(self) -> dict[str, int]:
        """How many slots are free in each rack. From the first call on, this is kept up to date."""
        if self._rack_free is None:
            self._rack_free = dict.fromkeys(self._rack_of, 0)
            for rack, free in zip(self._rack_of, self.free_counts, strict=True):
                self._rack_free[rack] += free
        return self._rack_free

    def slot_names(self, allocation: Allocation) -> Iterator[str]:
        """`node:index` of every slot, in order."""
        for node, slots in allocation:
            for index in range(self.nodes[node].gpus):
                if slots >> index & 1:
                    yield f"{self.nodes[node].name}:{index}"

    def holders(self, node: int) -> set[RunId]:
        """The runs that hold slots of a node. From the first call on, this is kept up to date."""
        if self._holders is None:
            self._holders = Holders.among(len(self.nodes), self.allocations)
        return self._holders.by_node[node]

    def open_to(self, demand: Demand) -> Holes:
        """The free slots of the nodes that suit the demand; valid until the next take or release."""
        if (
            demand.gpu_type is None
            and demand.cpus is None
            and demand.memory_bytes is None
            and demand.gpu_memory_bytes is None
            and demand.nodes is None
        ):
            return self
        holes = self.among(self._suiting(demand))
        if demand.nodes is not None:
            holes.pieces = demand.pieces
        return holes

    def most(self, demand: Demand) -> int:
        """The GPUs in service that suit the demand, free or not."""
        return self.open_to(demand).gpus

    def can_serve(self, demand: Demand) -> bool:
        """Whether what is in service could hold the gang if nothing were running."""
        if not demand.is_choosy:
            return demand.gpus <= self.gpus
        wish = demand.gpus, demand.nodes, demand.gpu_type, demand.cpus, demand.memory_bytes
        key = "serves", *wish, demand.gpu_memory_bytes
        known: bool | None = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self.open_to(demand).could_hold(demand.gpus)
        return known

    def _suiting(self, demand: Demand) -> int:
        each = (demand.cpus or 0) / demand.gpus, (demand.memory_bytes or 0) / demand.gpus
        piece = 0 if demand.nodes is None else demand.pieces[-1]
        key = (demand.gpu_type, *each, demand.gpu_memory_bytes or 0, piece)
        known = self._suited.get(key)
        if known is None:
            suit = (1 << position for position, node in enumerate(self.nodes) if node.suits(demand))
            known = self._suited[key] = sum(suit)
        return known
