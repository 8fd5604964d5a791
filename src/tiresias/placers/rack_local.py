"""One rack if possible: how Philly ranks racks and nodes."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import emptiest, emptiest_now, fewest_now, in_pieces, with_free


@placers.register
class RackLocal(Placer):
    """One rack if it holds the gang now, the emptiest first, and there the fewest nodes; never waits."""

    name = "rack-local"

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        need = job.gpus
        if not holes.hold(need):
            return None
        if need == 1:
            return fewest_now(1, holes)  # single GPUs are packed, so that they break no hole
        racks = sorted(
            (-holes.free_in(nodes), position, nodes) for position, nodes in enumerate(holes.racks.values())
        )
        if holes.pieces:
            return _in_pieces(need, holes, [nodes for _, _, nodes in racks])
        parts: list[tuple[int, int]] = []
        for free, _, nodes in racks:  # the emptiest racks, so that they are fewest
            some = min(need, -free)
            if some:
                parts += emptiest_now(some, holes.among(nodes))
            need -= some
            if not need:
                break
        return tuple(parts)


def _in_pieces(need: int, holes: Holes, racks: list[int]) -> Allocation:
    """On the emptiest nodes of the first of these racks that holds all pieces, else of the first that hold
    one each."""
    for nodes in racks:
        if holes.hold(need, nodes):
            return in_pieces(holes, emptiest, nodes)

    def choose(piece: int, holes: Holes, among: int) -> int:
        having = with_free(piece, holes) & among
        return emptiest(piece, holes, next(having & nodes for nodes in racks if having & nodes))

    return in_pieces(holes, choose)
