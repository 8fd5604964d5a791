"""The fewest nodes its size allows, however long that takes."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.plugins import Placer, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_ever, too_fragmented
from tiresias.placers.options import check_migrations, migrations_option


@placers.register
class Consolidated(Placer):
    """Every gang waits until it fits on the fewest nodes its size allows, of one rack if it can be."""

    name = "consolidated"
    waits = True

    @dataclass(slots=True)
    class Options:
        migrations: int = migrations_option()

        def __post_init__(self) -> None:
            check_migrations(self.migrations)

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        return fewest_ever(job.gpus, holes) if holes.hold(job.gpus) else None

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        return too_fragmented(job.gpus, holes)
