"""The same number of GPUs on each of the fewest nodes."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, each
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import emptiest, fewest_now, in_pieces


@placers.register
class Even(Placer):
    """The fewest nodes with the same number of GPUs on each, if there are such; never waits."""

    name = "even"

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        need = job.gpus
        if not holes.hold(need):
            return None
        if holes.pieces:  # the gang asks for so many nodes
            return in_pieces(holes, emptiest)
        for nodes in range(1, need + 1):
            share, rest = divmod(need, nodes)
            if rest == 0 and share < len(holes.buckets) and (found := _with(share, nodes, holes)):
                return tuple((node, holes.pick(node, share)) for node in found)
        return fewest_now(need, holes)


def _with(share: int, nodes: int, holes: Holes) -> list[int]:
    """So many nodes with at least `share` free slots, the emptiest first; none if there are fewer."""
    found: list[int] = []
    for free in range(len(holes.buckets) - 1, share - 1, -1):
        for node in each(holes.buckets[free]):
            found.append(node)
            if len(found) == nodes:
                return found
    return []
