"""GPUs are fungible: any free slots will do."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger, lowest
from tiresias.core.model import Demand
from tiresias.core.plugins import Placer, placers


@placers.register
class Count(Placer):
    """GPUs are fungible: the first free slots, node by node; never waits."""

    name = "count"

    def place(self, demand: Demand, ledger: Ledger) -> Allocation | None:
        need = demand.gpus
        if need > ledger.free:
            return None
        nodes = 0
        for having in ledger.buckets[1:]:
            nodes |= having
        parts = []
        while need:
            bit = nodes & -nodes
            nodes ^= bit
            node = bit.bit_length() - 1
            count = min(need, ledger.free_counts[node])
            parts.append((node, lowest(ledger.free_slots[node], count)))
            need -= count
        return tuple(parts)
