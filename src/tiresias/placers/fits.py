"""Ways to fit a gang into holes that several placers share.

Rules: nothing here waits or remembers; ties go by position. All use the buckets, so none scans the nodes.
"""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, first


def fewest_now(need: int, holes: Holes) -> Allocation:
    """The fewest nodes that hold the gang now, of which there is room for: best fit on one node."""
    for nodes in holes.buckets[need:]:  # the fullest node that holds all of it, first by position
        if nodes:
            node = (nodes & -nodes).bit_length() - 1
            return ((node, holes.pick(node, need)),)
    return _several(need, _one_kind(need, holes) or holes)


def fewest_ever(need: int, holes: Holes) -> Allocation | None:
    """On as few nodes as its size allows, of one rack if one has them; None if there is no such hole now."""
    fewest = holes.fewest_nodes(need)
    if fewest == 1:
        return fewest_now(need, holes) if holes.best_hole() >= need else None
    if not fewest or largest_holes(fewest, holes.buckets) < need:
        return None
    return fewest_now(need, _tightest_rack(need, fewest, holes) or holes)


def too_scattered(gpus: int, holes: Holes) -> str:
    """Why a gang that wants the fewest nodes is refused."""
    fewest = holes.fewest_nodes(gpus)
    where = "one node" if fewest == 1 else f"{fewest} nodes"
    return f"{holes.free} free, best hole {holes.best_hole()}, needs {gpus} on {where}"


def largest_holes(nodes: int, buckets: list[int]) -> int:
    """The free slots of so many nodes, those with the most."""
    slots = 0
    for free in range(len(buckets) - 1, 0, -1):
        count = min(nodes, buckets[free].bit_count())
        slots += count * free
        nodes -= count
        if not nodes:
            break
    return slots


def one_rack_now(need: int, holes: Holes, *, emptiest: bool = False) -> Allocation | None:
    """The fewest nodes of one rack that hold the gang now: of the fullest such rack, or of the emptiest."""
    best: tuple[int, int] | None = None
    for rack in holes.racks.values():
        free = holes.free_in(rack)
        if free >= need and (best is None or (free > best[0] if emptiest else free < best[0])):
            best = free, rack
    return None if best is None else fewest_now(need, holes.among(best[1]))


def emptiest_now(need: int, holes: Holes) -> Allocation:
    """The fewest nodes that hold the gang now, of these the emptiest."""
    if need <= (most := holes.best_hole()):
        node = first(holes.buckets[most])
        return ((node, holes.pick(node, need)),)
    return _several(need, holes)


def _tightest_rack(need: int, fewest: int, holes: Holes) -> Holes | None:
    """The fullest rack that has so few nodes for the gang."""
    best: tuple[int, int] | None = None
    if len(holes.racks) > 1:
        for rack in holes.racks.values():
            buckets = [nodes & rack for nodes in holes.buckets]
            if largest_holes(fewest, buckets) >= need:
                free = sum(nodes.bit_count() * count for count, nodes in enumerate(buckets))
                if best is None or free < best[0]:
                    best = free, rack
    return None if best is None else holes.among(best[1])


def _one_kind(need: int, holes: Holes) -> Holes | None:
    """The nodes of one type that hold the gang now, if that takes no more of them than all types together.

    A gang goes as fast as its slowest node, so the fastest such type; of equal ones that with least free.
    """
    if len(holes.kinds) < 2:
        return None
    fewest = _number_of_nodes(need, holes.buckets)
    best: tuple[float, int, int] | None = None
    for (_, speed), nodes in holes.kinds.items():
        buckets = [some & nodes for some in holes.buckets]
        if largest_holes(fewest, buckets) >= need:
            found = -speed, holes.free_in(nodes), nodes
            best = found if best is None else min(best, found)
    return None if best is None else holes.among(best[2])


def _number_of_nodes(need: int, buckets: list[int]) -> int:
    """How many of the nodes with most free slots hold the gang."""
    count = 0
    for free in range(len(buckets) - 1, 0, -1):
        nodes = buckets[free].bit_count()
        if need <= nodes * free:
            return count + -(-need // free)
        need -= nodes * free
        count += nodes
    raise AssertionError(("the ledger's free count is wrong", need))


def _several(need: int, holes: Holes) -> Allocation:
    """The emptiest nodes first, so that they are fewest; the rest goes where it fits best."""
    parts: list[tuple[int, int]] = []
    for having in range(len(holes.buckets) - 1, 0, -1):
        nodes = holes.buckets[having]
        while nodes and need >= having:
            bit = nodes & -nodes
            nodes ^= bit
            node = bit.bit_length() - 1
            parts.append((node, holes.free_slots[node]))
            need -= having
        if nodes and need:  # one more node is enough: take the best fit among those not used yet
            used = sum(1 << node for node, _ in parts)
            node = _best_fit(need, holes, used)
            parts.append((node, holes.pick(node, need)))
            need = 0
        if not need:
            break
    assert need == 0, ("the ledger's free count is wrong", need)
    return tuple(parts)


def _best_fit(need: int, holes: Holes, used: int) -> int:
    for nodes in holes.buckets[need:]:
        if nodes & ~used:
            return first(nodes & ~used)
    raise AssertionError(("no node holds the rest", need))
