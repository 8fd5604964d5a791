"""Allocations and their alternatives as the network model sees them: GPUs on each node of each rack."""

from __future__ import annotations

from collections.abc import Iterator

from tiresias.core.holes import EVERYWHERE, Holes
from tiresias.placers.fits import few_now
from tiresias.profiles.links import Shape


def _by_rack(parts: list[tuple[int, int]], holes: Holes) -> Shape:
    """The shape of (node, slots of it), largest first."""
    nodes = holes.nodes
    racks: dict[str, list[int]] = {}
    for node, count in parts:
        rack = nodes[node].rack
        if rack in racks:
            racks[rack].append(count)
        else:
            racks[rack] = [count]
    return tuple(sorted(map(tuple, racks.values()), reverse=True))


def shape_now(need: int, holes: Holes, among: int) -> Shape:
    """The shape that `fewest_now` would have, without building it; `among` is everywhere or one rack."""
    if holes.pieces or len(holes.kinds) > 1 or (among == EVERYWHERE and len(holes.racks) > 1):
        return _by_rack(few_now(need, holes, among), holes)
    counts: list[int] = []
    for having in range(len(holes.buckets) - 1, 0, -1):
        nodes = (holes.buckets[having] & among).bit_count()
        if nodes:
            whole = min(nodes, need // having)
            counts += [having] * whole
            need -= having * whole
            if need and whole < nodes:
                counts.append(need)
                need = 0
            if not need:
                break
    return (tuple(counts),)


def ideal(gpus: int, holes: Holes) -> Shape:
    """The shape if nothing were running: on the fewest nodes of one rack, or of several if it must be."""
    key = "ideal", gpus, holes.pieces
    known: Shape | None = holes.memo.get(key)
    if known is None:
        known = holes.memo[key] = _ideal(gpus, holes)
    return known


def _ideal(gpus: int, holes: Holes) -> Shape:
    sizes = holes.sizes()
    racks = [[(size, (nodes & rack).bit_count()) for size, nodes in sizes] for rack in holes.racks.values()]
    if holes.pieces:
        return _ideal_of_pieces(holes, racks)
    if len(racks) > 1:
        holding = [some for some in racks if sum(size * count for size, count in some) >= gpus]
        if holding:
            return (min((_largest(gpus, some) for some in holding), key=len),)
        racks.sort(key=lambda some: -sum(size * count for size, count in some))
    parts = []
    for some in racks:
        part = _largest(gpus, some)
        if part:
            parts.append(part)
        gpus -= sum(part)
    return tuple(sorted(parts, reverse=True))


def _ideal_of_pieces(holes: Holes, racks: list[list[tuple[int, int]]]) -> Shape:
    """All pieces in one rack, or as many as there are nodes for in the largest, and so on."""
    least, left = holes.pieces[-1], list(holes.pieces)
    sizes = [[size for size, count in some for _ in range(count) if size >= least] for some in racks]
    shape = []
    for nodes in sorted(sizes, key=len, reverse=True):
        part = []
        for size in nodes:
            if piece := next((piece for piece in left if piece <= size), 0):
                left.remove(piece)
                part.append(piece)
        if part:
            shape.append(tuple(part))
    return tuple(sorted(shape, reverse=True))


def worst(gpus: int, holes: Holes) -> Shape:
    """A node of its own for each GPU, over as many racks as there are."""
    racks = min(gpus, len(holes.racks))
    few, more = divmod(gpus, racks)
    return tuple((1,) * (few + (rack < more)) for rack in range(racks))


def partitions(gpus: int, most: int) -> Iterator[tuple[int, ...]]:
    """The ways to split so many GPUs over nodes with no more than `most` on each, largest first."""
    if not gpus:
        yield ()
    for part in range(min(gpus, most), 0, -1):
        for rest in partitions(gpus - part, part):
            yield (part, *rest)


def _largest(gpus: int, sizes: list[tuple[int, int]]) -> tuple[int, ...]:
    """GPUs on each node, as many of them on the largest as there are; (size, nodes of it), largest first."""
    part: list[int] = []
    for size, count in sizes:
        full = min(count, gpus // size)
        part += [size] * full
        gpus -= full * size
        if gpus and full < count:
            part.append(gpus)
            break
    return tuple(part)
