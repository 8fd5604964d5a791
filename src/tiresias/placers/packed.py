"""Fewest nodes now, best fit, never waits."""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_now


@placers.register
class Packed(Placer):
    """Real nodes and slots: the fewest nodes that hold the gang now, best fit; never waits."""

    name = "packed"

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if not holes.hold(job.gpus):
            return None
        return fewest_now(job.gpus, holes)
