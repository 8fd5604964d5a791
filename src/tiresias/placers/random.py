"""Anywhere: what placement is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, first
from tiresias.core.plugins import Placer, option, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import Choice, in_pieces, with_free

WORD = (1 << 64) - 1


@placers.register
class Random(Placer):
    """A node drawn anew for each GPU; never waits."""

    name = "random"

    @dataclass(slots=True)
    class Options:
        seed: int = option(0, "another number gives another draw")

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if not holes.hold(job.gpus):
            return None
        if holes.pieces:
            return in_pieces(holes, self._drawn(job))
        open_nodes = 0
        for nodes in holes.buckets[1:]:
            open_nodes |= nodes
        size = open_nodes.bit_length()
        free: dict[int, int] = {}
        draw = self._first_draw(job)
        for _ in range(job.gpus):
            draw = mixed(draw)
            begin = draw % size
            node = first((open_nodes >> begin << begin) or open_nodes)  # the next one that has a free slot
            left = free.get(node, holes.free_slots[node])
            free[node] = left = left & (left - 1)
            if not left:
                open_nodes &= ~(1 << node)
        return tuple(sorted((node, holes.free_slots[node] ^ left) for node, left in free.items()))

    def _first_draw(self, job: JobState) -> int:
        return mixed(mixed(self.options.seed) ^ mixed(job.id * 1009 + job.runs))

    def _drawn(self, job: JobState) -> Choice:
        draw = self._first_draw(job)

        def choose(need: int, holes: Holes, among: int) -> int:
            nonlocal draw
            draw = mixed(draw)
            nodes = with_free(need, holes) & among
            begin = draw % nodes.bit_length()
            return first((nodes >> begin << begin) or nodes)

        return choose


def mixed(number: int) -> int:
    """A number that looks like no other: the finaliser of splitmix64."""
    number = (number + 0x9E3779B97F4A7C15) & WORD
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & WORD
    return number ^ (number >> 31)
