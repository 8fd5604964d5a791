"""Aligned blocks of a power of two, so that gangs of such sizes do not break each other's holes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, each, first, lowest
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_now
from tiresias.placers.options import check_migrations, migrations_option


@placers.register
class Buddy(Placer):
    """Free blocks of a power of two at their own multiples, the tightest first; large gangs whole nodes."""

    name = "buddy"
    waits = True

    @dataclass(slots=True)
    class Options:
        migrations: int = migrations_option()

        def __post_init__(self) -> None:
            check_migrations(self.migrations)

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if not holes.hold(job.gpus):
            return None
        found = _blocks_of_pieces(holes) if holes.pieces else _blocks(job.gpus, holes)
        if found is None and (holes.free == holes.gpus or not _ever(job.gpus, holes)):
            return fewest_now(job.gpus, holes)  # no block could ever hold it, so the rule does not apply
        return found

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        """For one block: what is free of the block with most free slots, on the emptiest node."""
        claim = holes.emptiest(job.gpus)
        if len(claim) != 1 or holes.pieces:
            return claim
        size, whole = _need(job.gpus, holes)
        if whole:
            return claim
        node = claim[0][0]
        blocks = [(1 << size) - 1 << begin for begin in range(0, holes.nodes[node].gpus, size)]
        return ((node, max((holes.free_slots[node] & block for block in blocks), key=int.bit_count)),)

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        if holes.pieces and not holes.hold(job.gpus):
            return holes.shortage(job.gpus)
        if holes.pieces:
            where = f"{len(holes.pieces)} nodes, in a free block of {_size(holes.pieces[0])} on each"
            return f"{holes.free} free, needs {job.gpus} on {where}"
        size, whole = _need(job.gpus, holes)
        nodes = ["one whole node" if whole == 1 else f"{whole} whole nodes"] if whole else []
        wanted = " and ".join(nodes + ([f"a free block of {size}"] if size else []))
        return f"{holes.free} free, best hole {holes.best_hole()}, needs {job.gpus} in {wanted}"


def _need(gpus: int, holes: Holes) -> tuple[int, int]:
    """(the block for what whole nodes leave over, 0 if nothing; how many whole nodes of the largest size)."""
    node = holes.sizes()[0][0]
    whole, rest = divmod(gpus, node)
    return (_size(rest) if rest else 0), whole


def _blocks(gpus: int, holes: Holes) -> Allocation | None:
    """Whole nodes, and for the rest the tightest free block."""
    size, whole = _need(gpus, holes)
    node_gpus = holes.sizes()[0][0]
    parts: list[tuple[int, int]] = []
    empty = holes.buckets[node_gpus] if whole else 0
    used = 0
    for _ in range(whole):
        if not empty:
            return None
        node = first(empty)
        empty &= empty - 1
        used |= 1 << node
        parts.append((node, holes.free_slots[node]))
    if size:
        rest = gpus - whole * node_gpus
        block = _tightest(size, rest, used, holes)
        if block is None:
            return None
        parts.append(block)
    return tuple(parts)


def _blocks_of_pieces(holes: Holes) -> Allocation | None:
    """The tightest free block for each piece."""
    parts: list[tuple[int, int]] = []
    used = 0
    for piece in holes.pieces:
        block = _tightest(_size(piece), piece, used, holes)
        if block is None:
            return None
        used |= 1 << block[0]
        parts.append(block)
    return tuple(parts)


def _size(gpus: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (gpus - 1).bit_length()


def _tightest(size: int, rest: int, used: int, holes: Holes) -> tuple[int, int] | None:
    """The block that breaks the smallest free one, on the fullest node that has it."""
    best: tuple[int, int, int] | None = None
    for free in range(rest, len(holes.buckets)):
        for node in each(holes.buckets[free] & ~used):
            found = _block(size, rest, holes.free_slots[node], holes.nodes[node].gpus)
            if found is not None and (best is None or found[0] < best[0]):
                best = found[0], node, found[1]
                if best[0] == size:
                    break
        if best is not None:
            break
    return None if best is None else (best[1], lowest(best[2], rest))


@cache
def _block(size: int, rest: int, free: int, gpus: int) -> tuple[int, int] | None:
    """(the free block around it that would be broken, the slots) of the tightest block on a node."""
    best: tuple[int, int] | None = None
    for begin in range(0, gpus, size):
        block = (1 << min(size, gpus - begin)) - 1 << begin
        if free & block != block or block.bit_count() < rest:
            continue
        around = size
        while around * 2 <= gpus:
            larger = (1 << around * 2) - 1 << begin // (around * 2) * (around * 2)
            if free & larger != larger:
                break
            around *= 2
        if best is None or around < best[0]:
            best = around, block
    return best


def _ever(gpus: int, holes: Holes) -> bool:
    """Whether blocks could hold the gang, were nothing running."""
    if holes.pieces:
        return all(_number_of_blocks(piece, holes) > nth for nth, piece in enumerate(holes.pieces))
    size, whole = _need(gpus, holes)
    node_gpus, nodes = holes.sizes()[0]
    rest = gpus - whole * node_gpus
    if not rest or whole > nodes.bit_count():
        return whole <= nodes.bit_count()
    most = node_gpus if whole < nodes.bit_count() else node_gpus - 1  # of a node that is left for the rest
    return any(
        slots.bit_count() <= most and _block(size, rest, slots, holes.nodes[first(some)].gpus) is not None
        for slots, some in holes.layouts.items()
        if some
    )


def _number_of_blocks(gpus: int, holes: Holes) -> int:
    """On how many nodes a block could hold so many GPUs, were nothing running."""
    return sum(
        some.bit_count()
        for slots, some in holes.layouts.items()
        if some and _block(_size(gpus), gpus, slots, holes.nodes[first(some)].gpus) is not None
    )
