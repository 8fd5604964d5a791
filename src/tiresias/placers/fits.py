"""Ways to fit a gang into holes that several placers share.

Rules: nothing here waits or keeps state; ties are broken by position. All functions use the buckets, so none
scans the nodes. All of them respect the pieces of a gang that has stated on how many nodes it must be: which
nodes these are is what is left to choose, and a placer may choose them by a rule of its own (`in_pieces`).
"""

from __future__ import annotations

from collections.abc import Callable

from tiresias.core.facts import Allocation
from tiresias.core.holes import EVERYWHERE, Holes, first
from tiresias.core.model import INFINITY

Choice = Callable[[int, Holes, int], int]
"""From a number of slots, the holes, and nodes that may be used, to one of these that has so many free."""


def on_one_node(need: int, holes: Holes, among: int = EVERYWHERE) -> Allocation | None:
    """The fullest node that holds all of the gang, first by position."""
    if holes.pieces and len(holes.pieces) > 1:
        return None
    for nodes in holes.buckets[need:]:
        nodes &= among
        if nodes:
            node = (nodes & -nodes).bit_length() - 1
            return ((node, holes.pick(node, need)),)
    return None


def fewest_now(need: int, holes: Holes, among: int = EVERYWHERE) -> Allocation:
    """The fewest of these nodes that hold the gang now, for which there is room: best fit on one node.

    A gang in pieces goes to one rack if one has room for all of them, and each piece where it fits best.
    """
    if holes.pieces and among == EVERYWHERE:
        among = _tightest_rack(need, len(holes.pieces), holes)
    return on_one_node(need, holes, among) or _several(need, holes, among)


def fewest_ever(need: int, holes: Holes) -> Allocation | None:
    """On as few nodes as its size allows, of one rack if one has them; None if there is no such hole now."""
    nodes = nodes_for_fewest(need, holes)
    return fewest_now(need, holes, nodes) if nodes else None


def nodes_for_fewest(need: int, holes: Holes) -> int:
    """The nodes among which the gang fits now on as few as its size allows; 0: it does not."""
    fewest = holes.fewest_nodes(need)
    if fewest == 1:
        return EVERYWHERE if any(holes.buckets[need:]) else 0
    if not fewest or not _fits_on(fewest, need, holes, EVERYWHERE):
        return 0
    return _tightest_rack(need, fewest, holes)


def too_fragmented(gpus: int, holes: Holes) -> str:
    """Why a gang that wants the fewest nodes is refused."""
    if holes.pieces:
        return holes.shortage(gpus)
    fewest = holes.fewest_nodes(gpus)
    where = "one node" if fewest == 1 else f"{fewest} nodes"
    return f"{holes.free} free, best hole {holes.best_hole()}, needs {gpus} on {where}"


def _fits_on(number: int, need: int, holes: Holes, among: int) -> bool:
    """Whether the gang fits now on so few of these nodes."""
    if holes.pieces:
        return holes.hold(need, among)
    buckets = holes.buckets if among == EVERYWHERE else [some & among for some in holes.buckets]
    return largest_holes(number, buckets) >= need


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


def one_rack_now(need: int, holes: Holes) -> Allocation | None:
    """The fewest nodes of one rack that hold the gang now: of the fullest such rack."""
    nodes = fullest_rack(need, holes)
    return fewest_now(need, holes, nodes) if nodes else None


def fullest_rack(need: int, holes: Holes) -> int:
    """The nodes of the fullest rack that has room for the gang now; 0: none has."""
    best_free, best = INFINITY, ""
    for rack, free in holes.free_by_rack().items():
        if need <= free < best_free and (not holes.pieces or holes.hold(need, holes.racks[rack])):
            best_free, best = free, rack
    return holes.racks[best] if best_free < INFINITY else 0


def emptiest_rack(need: int, holes: Holes) -> int:
    """The nodes of the rack in which a hole for a gang of several nodes has least to grow; 0 if no rack could
    ever hold it on as few nodes as its size allows, or if it needs one node only.
    """
    fewest = holes.fewest_nodes(need)
    if fewest < 2 or len(holes.racks) < 2:
        return 0
    best_free, best = -1, 0
    for nodes in holes.racks.values():
        if _number_at_most(need, fewest, holes, nodes):
            free = largest_holes(fewest, [some & nodes for some in holes.buckets])
            if free > best_free:
                best_free, best = free, nodes
    return best


def _number_at_most(need: int, fewest: int, holes: Holes, among: int) -> bool:
    """Whether so few of these nodes could hold the gang if nothing were running."""
    if holes.pieces:
        return holes.could_hold(need, among)
    for size, nodes in holes.sizes():
        count = min(fewest, (nodes & among).bit_count())
        need -= size * count
        fewest -= count
        if need <= 0:
            return True
    return False


def emptiest_now(need: int, holes: Holes) -> Allocation:
    """The fewest nodes that hold the gang now, of these the emptiest."""
    if holes.pieces:
        return in_pieces(holes, emptiest)
    if need <= (most := holes.best_hole()):
        node = first(holes.buckets[most])
        return ((node, holes.pick(node, need)),)
    return _several(need, holes)


def _tightest_rack(need: int, fewest: int, holes: Holes) -> int:
    """The nodes of the fullest rack that has so few for the gang; all nodes where none has."""
    best_free, best = INFINITY, EVERYWHERE
    if len(holes.racks) > 1:
        for rack, free in holes.free_by_rack().items():
            if need <= free < best_free:
                nodes = holes.racks[rack]
                if _fits_on(fewest, need, holes, nodes):
                    best_free, best = free, nodes
    return best


def _one_kind(need: int, holes: Holes, among: int) -> int:
    """Of these nodes those of one type, if the gang needs no more of them than of all types together.

    A gang goes as fast as its slowest node, so the fastest such type; of equal ones that with least free.
    """
    if len(holes.kinds) < 2:
        return among
    fewest = len(holes.pieces) or _number_of_nodes(need, [some & among for some in holes.buckets])
    best: tuple[float, int, int] | None = None
    for (_, speed), kind in holes.kinds.items():
        nodes = kind & among
        if _fits_on(fewest, need, holes, nodes):
            found = -speed, holes.free_in(nodes), nodes
            best = found if best is None else min(best, found)
    return among if best is None else best[2]


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


def few_now(need: int, holes: Holes, among: int = EVERYWHERE) -> list[tuple[int, int]]:
    """(node, how many of its slots) of the fewest of these nodes that hold the gang now.

    The emptiest nodes first, so that they are fewest; the rest goes where it fits best.
    """
    among = _one_kind(need, holes, among)
    if holes.pieces:
        return _piece_by_piece(holes, fullest, among)
    parts: list[tuple[int, int]] = []
    buckets = holes.buckets
    for having in range(len(buckets) - 1, 0, -1):
        nodes = buckets[having] & among
        while nodes and need >= having:
            bit = nodes & -nodes
            nodes ^= bit
            parts.append((bit.bit_length() - 1, having))
            need -= having
        if nodes and need:  # one more node is enough: take the best fit among those not used yet
            for node, _ in parts:
                among &= ~(1 << node)
            parts.append((fullest(need, holes, among), need))
            need = 0
        if not need:
            break
    assert need == 0, ("the ledger's free count is wrong", need)
    return parts


def _several(need: int, holes: Holes, among: int = EVERYWHERE) -> Allocation:
    return tuple([(node, holes.pick(node, count)) for node, count in few_now(need, holes, among)])


def in_pieces(holes: Holes, choose: Choice, among: int = EVERYWHERE) -> Allocation:
    """Slots on one node for each piece, for all of which there is room on these nodes."""
    return tuple([(node, holes.pick(node, piece)) for node, piece in _piece_by_piece(holes, choose, among)])


def _piece_by_piece(holes: Holes, choose: Choice, among: int) -> list[tuple[int, int]]:
    parts = []
    for piece in holes.pieces:  # the largest first: whatever is chosen for them leaves nodes for the others
        node = choose(piece, holes, among)
        among &= ~(1 << node)
        parts.append((node, piece))
    return parts


def fullest(need: int, holes: Holes, among: int) -> int:
    """The node that it fits best."""
    for nodes in holes.buckets[need:]:
        if nodes & among:
            return first(nodes & among)
    raise AssertionError(("no node holds it", need))


def emptiest(need: int, holes: Holes, among: int) -> int:
    """The node with most free slots."""
    for nodes in reversed(holes.buckets[need:]):
        if nodes & among:
            return first(nodes & among)
    raise AssertionError(("no node holds it", need))


def foremost(need: int, holes: Holes, among: int) -> int:
    """The first node by position."""
    return first(with_free(need, holes) & among)


def with_free(need: int, holes: Holes) -> int:
    """The nodes with at least so many free slots."""
    found = 0
    for nodes in holes.buckets[need:]:
        found |= nodes
    return found
