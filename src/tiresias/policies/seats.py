"""Seats: the sets of slots among which an allocator that shares GPUs distributes gangs.

A seat is a set of slots and the jobs that share it, all of one size. No two seats have a slot in common, and
a slot that is in no seat is free. The affinity of a node is the size of the jobs on it, if they all have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tiresias.core.facts import Allocation
from tiresias.core.holes import lowest
from tiresias.core.ledger import Ledger
from tiresias.core.model import Demand, JobId
from tiresias.core.state import JobState

MIXED = -1  # the affinity of a node whose jobs differ in size

Suits = Callable[[int], bool]
"""Whether a job may use the node at this position."""


class Seat:
    """Slots, and the jobs that share them; `layers` are those of the jobs."""

    __slots__ = ("gpus", "is_closed", "layers", "members", "slots")

    def __init__(self, slots: Allocation, gpus: int):
        self.slots = slots
        self.gpus = gpus
        self.members: dict[JobId, JobState] = {}
        self.layers: dict[JobId, int] = {}
        self.is_closed = False  # nobody else may join

    def free_layer(self) -> int:
        used = set(self.layers.values())
        return next(layer for layer in range(len(used) + 1) if layer not in used)


class Floor:
    """The seats of a cluster, with at most `layers` jobs each."""

    def __init__(self, ledger: Ledger, layers: int):
        self._nodes = ledger.nodes
        self._layers = layers
        self.free = list(ledger.offered)  # by node: the slots that are in no seat
        self.counts = [mask.bit_count() for mask in self.free]
        self.sizes = [mask.bit_count() for mask in ledger.offered]
        self.total = sum(self.counts)  # of free slots
        self.seat_of: dict[JobId, Seat] = {}
        self._seats: dict[Allocation, Seat] = {}
        self._on_node: list[dict[Allocation, Seat]] = [{} for _ in ledger.nodes]
        self._kinds: list[dict[int, int]] = [{} for _ in ledger.nodes]  # by node: seats by size
        self._by_depth: dict[int, list[dict[Allocation, Seat]]] = {}  # by size, then by number of jobs

    # --- who sits where --------------------------------------------------------------------------------

    def sit(self, job: JobState, slots: Allocation, layer: int | None = None) -> Seat | None:
        """Let the job join the seat of these slots, which is made if they are free; None: it cannot."""
        slots = tuple(sorted(slots))
        seat = self._seats.get(slots)
        if seat is None:
            if any(mask & ~self.free[node] for node, mask in slots):
                return None
            seat = self._open(slots, sum([mask.bit_count() for _, mask in slots]))
        elif len(seat.members) >= self._layers:
            return None
        # A run may be on a layer that there was when slots had more of them: it gets another one.
        if layer is None or layer >= self._layers or layer in seat.layers.values():
            layer = seat.free_layer()
        self._move(seat, len(seat.members) + 1)
        seat.members[job.id] = job
        seat.layers[job.id] = layer
        self.seat_of[job.id] = seat
        return seat

    def leave(self, id: JobId) -> Seat | None:
        """Take the job off its seat, if it has one; a seat without jobs is given up."""
        seat = self.seat_of.pop(id, None)
        if seat is None:
            return None
        self._move(seat, len(seat.members) - 1)
        del seat.members[id]
        del seat.layers[id]
        if not seat.members:
            self._close(seat)
        return seat

    def in_the_way(self, slots: Allocation) -> list[Seat]:
        """The seats that have some of these slots and others as well, or not all of them."""
        wanted = tuple(sorted(slots))
        found: dict[Allocation, Seat] = {}
        for node, mask in wanted:
            for seat in self._on_node[node].values():
                theirs = dict(seat.slots)[node]
                if theirs & mask and seat.slots != wanted:
                    found[seat.slots] = seat
        return list(found.values())

    def _open(self, slots: Allocation, gpus: int) -> Seat:
        seat = self._seats[slots] = Seat(slots, gpus)
        self._by_depth.setdefault(gpus, [{} for _ in range(self._layers + 1)])[0][slots] = seat
        for node, mask in slots:
            self.free[node] &= ~mask
            self.counts[node] -= mask.bit_count()
            self.total -= mask.bit_count()
            self._on_node[node][slots] = seat
            self._kinds[node][gpus] = self._kinds[node].get(gpus, 0) + 1
        return seat

    def _close(self, seat: Seat) -> None:
        del self._seats[seat.slots]
        del self._by_depth[seat.gpus][0][seat.slots]
        for node, mask in seat.slots:
            self.free[node] |= mask
            self.counts[node] += mask.bit_count()
            self.total += mask.bit_count()
            del self._on_node[node][seat.slots]
            kinds = self._kinds[node]
            kinds[seat.gpus] -= 1
            if not kinds[seat.gpus]:
                del kinds[seat.gpus]

    def _move(self, seat: Seat, depth: int) -> None:
        by_depth = self._by_depth[seat.gpus]
        del by_depth[len(seat.members)][seat.slots]
        by_depth[depth][seat.slots] = seat

    # --- where a job could sit -------------------------------------------------------------------------

    def suits(self, demand: Demand) -> Suits | None:
        """Which nodes the demand may use; None: all of them."""
        if not demand.is_choosy:
            return None
        nodes = self._nodes
        return lambda node: nodes[node].suits(demand)

    def affinity(self, node: int) -> int:
        """The size of the jobs on the node: 0 if there are none, MIXED if they differ."""
        kinds = self._kinds[node]
        if len(kinds) > 1:
            return MIXED
        return next(iter(kinds)) if kinds else 0

    def free_slots_for(self, gpus: int, suits: Suits | None, without: int = -1) -> Allocation | None:
        """Free slots on one node: of the same affinity, of none, of any; None: there are none."""
        same = empty = other = -1
        for node, count in enumerate(self.counts):
            if count < gpus or node == without or (suits is not None and not suits(node)):
                continue
            affinity = self.affinity(node)
            if affinity == gpus:
                if same < 0 or count > self.counts[same]:
                    same = node
            elif affinity == 0:
                if empty < 0 or count < self.counts[empty]:
                    empty = node
            elif other < 0 or count < self.counts[other]:
                other = node
        node = same if same >= 0 else empty if empty >= 0 else other
        return None if node < 0 else ((node, lowest(self.free[node], gpus)),)

    def free_slots_of_many(self, gpus: int, suits: Suits | None) -> Allocation | None:
        """Free slots on several nodes, on as few as possible; None: there are too few."""
        if gpus > self.total:
            return None
        found: list[tuple[int, int]] = []
        for node in sorted(range(len(self.counts)), key=lambda node: (-self.counts[node], node)):
            count = min(gpus, self.counts[node])
            if count and (suits is None or suits(node)):
                found.append((node, lowest(self.free[node], count)))
                gpus -= count
                if not gpus:
                    return tuple(sorted(found))
        return None

    def free_slots_in_pieces(self, pieces: tuple[int, ...], suits: Suits | None) -> Allocation | None:
        """Free slots on a node of its own for each piece, where it fits best; None: there are none."""
        found: list[tuple[int, int]] = []
        nodes = sorted(range(len(self.counts)), key=lambda node: (self.counts[node], node))
        nodes = [node for node in nodes if suits is None or suits(node)]
        for piece in pieces:  # the largest first
            node = next((node for node in nodes if self.counts[node] >= piece), None)
            if node is None:
                return None
            nodes.remove(node)
            found.append((node, lowest(self.free[node], piece)))
        return tuple(sorted(found))

    def room_at(self, gpus: int, depth: int, without: Seat) -> int:
        """How many jobs can join seats of this size, other than that one, which then have at most `depth`."""
        by_depth = self._by_depth[gpus]
        room = 0
        for number in range(1, min(depth, self._layers)):
            some = by_depth[number]
            seats = sum(not seat.is_closed for seat in some.values())
            if without.slots in some:
                seats -= not without.is_closed
            room += seats * (min(depth, self._layers) - number)
        return room

    def seat_to_share(
        self, job: JobState, suits: Suits | None, below: int, without: Allocation = ()
    ) -> Seat | None:
        """The seat of jobs of this size with the fewest of them, and with fewer than `below`."""
        for some in self._by_depth.get(job.job.demand.gpus, ())[:below]:
            for slots in sorted(some) if len(some) > 1 else some:
                seat = some[slots]
                if (
                    seat.is_closed
                    or slots == without
                    or (suits is not None and not all(suits(node) for node, _ in slots))
                    or not _is_as_asked(job.job.demand, slots)
                ):
                    continue
                if self._has_memory(job, seat):
                    return seat
        return None

    def deepest(self, gpus: int) -> int:
        """The largest number of jobs on one seat of this size."""
        by_depth = self._by_depth.get(gpus, ())
        return max((depth for depth, some in enumerate(by_depth) if some), default=0)

    def seats_at(self, gpus: int, depth: int) -> Iterator[Seat]:
        """The seats of this size with so many jobs, in order."""
        some = self._by_depth[gpus][depth]
        return (some[slots] for slots in sorted(some))

    def gang_sizes(self) -> list[int]:
        """The sizes of the jobs on seats, the largest first."""
        return sorted((gpus for gpus, some in self._by_depth.items() if any(some)), reverse=True)

    def seats_on(self, node: int) -> Iterable[Seat]:
        return list(self._on_node[node].values())

    def _has_memory(self, job: JobState, seat: Seat) -> bool:
        for node, _ in seat.slots:
            most = self._nodes[node].gpu_memory_bytes
            if most:
                needs = [each.job.demand.gpu_memory_bytes for each in (job, *seat.members.values())]
                if sum(most if need is None else need for need in needs) > most:
                    return False
        return True


def _is_as_asked(demand: Demand, slots: Allocation) -> bool:
    """Whether slots are on as many nodes as the demand states, if it states that."""
    if demand.nodes is None:
        return True
    return tuple(sorted((mask.bit_count() for _, mask in slots), reverse=True)) == demand.pieces
