"""As many nodes as possible."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, each
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import emptiest, in_pieces


@placers.register
class Spread(Placer):
    """As evenly over as many nodes as possible, the emptiest first; never waits."""

    name = "spread"

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if not holes.hold(job.gpus):
            return None
        if holes.pieces:
            return in_pieces(holes, emptiest)
        counts = self._shares(job.gpus, self._emptiest(job.gpus, holes))
        return tuple((node, holes.pick(node, count)) for node, count in counts.items())

    def _emptiest(self, most: int, holes: Holes) -> list[tuple[int, int]]:
        """(node, free slots) of up to so many nodes with any, those with most first."""
        found: list[tuple[int, int]] = []
        for free in range(len(holes.buckets) - 1, 0, -1):
            for node in each(holes.buckets[free]):
                if len(found) == most:
                    return found
                found.append((node, free))
        return found

    def _shares(self, need: int, nodes: list[tuple[int, int]]) -> dict[int, int]:
        """As even as the holes allow: the smallest hole is filled or gets its share, then the next."""
        shares: dict[int, int] = {}
        for left, (node, free) in zip(range(len(nodes), 0, -1), reversed(nodes), strict=True):
            shares[node] = min(free, need // left)
            need -= shares[node]
        assert need == 0, ("the ledger's free count is wrong", need)
        return shares
