"""GPUs are fungible: any free slots will do."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, lowest
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import foremost, in_pieces


@placers.register
class Count(Placer):
    """GPUs are fungible: the first free slots, node by node; never waits."""

    name = "count"

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        need = job.gpus
        if not holes.hold(need):
            return None
        if holes.pieces:
            return in_pieces(holes, foremost)
        nodes = 0
        for having in holes.buckets[1:]:
            nodes |= having
        parts = []
        while need:
            bit = nodes & -nodes
            nodes ^= bit
            node = bit.bit_length() - 1
            count = min(need, holes.free_counts[node])
            parts.append((node, lowest(holes.free_slots[node], count)))
            need -= count
        return tuple(parts)
