"""Philly's scheduler: locality first, and less of it after each wait without success."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.model import INFINITY
from tiresias.core.plugins import Placer, option, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_ever, fewest_now, one_rack_now
from tiresias.placers.options import check_migrations, migrations_option

BLINK_S = 1e-6  # an instant may come this much too early by rounding
WANTED = ("the fewest nodes", "one rack", "any slots")


@placers.register
class Relaxing(Placer):
    """Fewest nodes first, then one rack, then anywhere: waits, backs off and relaxes, as Philly does."""

    name = "relaxing"
    waits = True

    @dataclass(slots=True)
    class Options:
        timeout_s: float = option(150.0, "seconds a gang gathers slots under one wish for locality")
        back_off_s: float = option(120.0, "seconds it then leaves them to others before it tries again")
        retries: int = option(2, "vain tries before the wish is relaxed by one step")
        migrations: int = migrations_option()

        def __post_init__(self) -> None:
            check_migrations(self.migrations)
            if not (0 < self.timeout_s < INFINITY and 0 <= self.back_off_s < INFINITY and self.retries >= 1):
                raise ValueError("timeout_s and retries must be above 0, back_off_s 0 or more")

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        if not holes.hold(job.gpus):
            return None
        level, _, backing_off = self._stand(at, refused_since)
        if backing_off:
            return None
        if level == 0 and holes.fewest_nodes(job.gpus):
            return fewest_ever(job.gpus, holes)
        if level == 1 and any(holes.could_hold(job.gpus, rack) for rack in holes.racks.values()):
            return one_rack_now(job.gpus, holes)
        return fewest_now(job.gpus, holes)

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        """Nothing while it backs off: what it had gathered is released."""
        return () if self._stand(at, refused_since)[2] else holes.emptiest(job.gpus)

    def retry_at(self, job: JobState, holes: Holes, at: float, refused_since: float) -> float:
        return self._stand(at, refused_since)[1]

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        level, ends_at, backing_off = self._stand(at, refused_since)
        if holes.pieces and not holes.hold(job.gpus):
            return holes.shortage(job.gpus)
        need = f"{holes.free} free, best hole {holes.best_hole()}, needs {job.gpus} on {WANTED[level]}"
        return f"{need}; {'backs off' if backing_off else 'waits'} for another {ends_at - at:.0f} s"

    def _stand(self, at: float, since: float) -> tuple[int, float, bool]:
        """(its wish for locality, until when it lasts, whether the gang backs off until then)."""
        timeout_s, cycle_s = self.options.timeout_s, self.options.timeout_s + self.options.back_off_s
        tries = int((at - since + BLINK_S) // cycle_s)
        began_at = since + tries * cycle_s
        level = min(tries // self.options.retries, len(WANTED) - 1)
        if level == len(WANTED) - 1:
            return level, INFINITY, False
        if at + BLINK_S < began_at + timeout_s:
            return level, began_at + timeout_s, False
        return level, began_at + cycle_s, True
