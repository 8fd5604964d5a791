"""Fewest nodes now, best fit, never waits."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger, lowest
from tiresias.core.model import Demand
from tiresias.core.plugins import Placer, placers


@placers.register
class Packed(Placer):
    """Real nodes and slots: the fewest nodes that hold the gang now, best fit; never waits."""

    name = "packed"

    def place(self, demand: Demand, ledger: Ledger) -> Allocation | None:
        need = demand.gpus
        if need > ledger.free:
            return None
        buckets = ledger.buckets
        for nodes in buckets[need:]:  # the fullest node that holds all of it, first by position
            if nodes:
                node = (nodes & -nodes).bit_length() - 1
                return ((node, lowest(ledger.free_slots[node], need)),)
        return _spread(need, ledger)


def _spread(need: int, ledger: Ledger) -> Allocation:
    """The emptiest nodes first, so that they are fewest; the rest goes where it fits best."""
    parts: list[tuple[int, int]] = []
    for having in range(len(ledger.buckets) - 1, 0, -1):
        nodes = ledger.buckets[having]
        while nodes and need >= having:
            bit = nodes & -nodes
            nodes ^= bit
            node = bit.bit_length() - 1
            parts.append((node, ledger.free_slots[node]))
            need -= having
        if nodes and need:  # one more node is enough: take the best fit among those not used yet
            used = {node for node, _ in parts}
            node = _best_fit(need, ledger, used)
            parts.append((node, lowest(ledger.free_slots[node], need)))
            need = 0
        if not need:
            break
    assert need == 0, ("the ledger's free count is wrong", need)
    return tuple(parts)


def _best_fit(need: int, ledger: Ledger, used: set[int]) -> int:
    for nodes in ledger.buckets[need:]:
        while nodes:
            bit = nodes & -nodes
            node = bit.bit_length() - 1
            if node not in used:
                return node
            nodes ^= bit
    raise AssertionError(("no node holds the rest", need))
