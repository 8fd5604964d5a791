"""Gangs that ask for a number of nodes: their pieces, and the slots for them.

The GPUs of such a gang are shared out evenly: 8 on 3 nodes are pieces of 3, 3 and 2. The pieces are fixed by
the demand, so no placer is asked; they go to nodes of one rack if one has them, and each to the node that it
fits best. Ties are broken by position.
"""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, first
from tiresias.core.model import Demand
from tiresias.core.plugins import Placer
from tiresias.core.state import JobState

EVERYWHERE = -1


def place(placer: Placer, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
    """Slots for the whole gang, by its pieces or by the placer; None to refuse."""
    demand = job.job.demand
    if demand.nodes is None:
        return placer.place(job, holes, at, refused_since)
    return in_pieces(demand, holes)


def in_pieces(demand: Demand, holes: Holes) -> Allocation | None:
    """One piece on each of as many nodes as are asked for; None if there are no such holes now."""
    for nodes in (*_racks(demand, holes), EVERYWHERE):
        if found := _among(demand.pieces, holes, nodes):
            return found
    return None


def claim(placer: Placer, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
    """The free slots that a refused gang keeps from those behind it, so that a hole for it grows."""
    demand = job.job.demand
    if demand.nodes is None:
        return placer.claim(job, holes, at, refused_since)
    return _emptiest(demand, holes)


def _emptiest(demand: Demand, holes: Holes) -> Allocation:
    """Of the nodes with most free slots as many as a piece takes."""
    pieces, parts = list(demand.pieces), []
    for free in range(len(holes.buckets) - 1, 0, -1):
        nodes = holes.buckets[free]
        while nodes and pieces:
            node = first(nodes)
            nodes &= nodes - 1
            parts.append((node, holes.pick(node, min(pieces.pop(0), free))))
    return tuple(parts)


def refusal(demand: Demand, holes: Holes) -> str:
    """Why a gang is refused for which enough slots are free, with the figures."""
    largest, smallest = demand.pieces[0], demand.pieces[-1]
    there = sum(some.bit_count() for some in holes.buckets[smallest:])
    each = f"{largest} each" if largest == smallest else f"{smallest} or {largest} each"
    return f"{holes.free} free, needs {demand.nodes} nodes with {each}; {there} have {smallest} free"


def _racks(demand: Demand, holes: Holes) -> list[int]:
    """The nodes of each rack that has enough free slots, the fullest rack first."""
    if len(holes.racks) < 2:
        return []
    free = {rack: count for rack, count in holes.free_by_rack().items() if count >= demand.gpus}
    return [holes.racks[rack] for rack in sorted(free, key=lambda rack: (free[rack], rack))]


def _among(pieces: tuple[int, ...], holes: Holes, nodes: int) -> Allocation | None:
    parts = []
    for piece in pieces:  # the largest first: what fits them best is no loss for the others
        for some in holes.buckets[piece:]:
            if some & nodes:
                node = first(some & nodes)
                break
        else:
            return None
        nodes &= ~(1 << node)
        parts.append((node, holes.pick(node, piece)))
    return tuple(parts)
