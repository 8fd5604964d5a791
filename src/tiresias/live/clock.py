"""The manager's time: it is set by the wall clock when a manager starts, and then only elapses.

Two clocks with different tasks:
- `now` is the instant of facts (`at`). While a manager runs it advances by elapsed time, suspended time
  included, whatever happens to the wall clock. Service, time limits and back-off are counted by it.
- `wall` is the wall clock as it is, which may be set forwards and back. Begin times are compared with it.

An Anchor joins the two in one boot of the machine. It is stored, so that a manager that is started again
while runs are alive goes on by elapsed time, and no run is charged for a clock that was set meanwhile. See
docs/decisions/0013-time-elapses.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tiresias.executors.procfs import boot_id as this_boot

ANCHOR = "clock"  # the setting that holds what `stored` returns
NOTICED_S = 10.0  # smaller steps of the wall clock are not reported
DAY_S = 86_400.0


SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Seconds since the machine was booted, suspended time included where the system counts it."""
    return time.clock_gettime(SINCE_BOOT)


@dataclass(slots=True, frozen=True)
class Anchor:
    """In the boot with this id, `at` is the instant when `elapsed_s` seconds had elapsed since the boot."""

    boot_id: str
    elapsed_s: float
    at: float
    wall: float  # what the wall clock said then

    def instant(self, elapsed_s: float) -> float:
        return self.at + elapsed_s - self.elapsed_s


@dataclass(slots=True, frozen=True)
class Boot:
    """The change from one boot of the machine to the next: what was granted before it has ended by then."""

    last_at: float  # the last instant that was stored before it
    next_run_id: int  # runs with smaller ids were granted before it
    anchor: Anchor  # of the boot before


class Clock:
    """`last_at` is an instant that `now` must not precede. An empty `boot_id` is that of no machine."""

    def __init__(
        self,
        last_at: float = 0.0,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = elapsed_s,
        boot_id: str = "",
    ):
        self._wall, self._steady, self._boot_id = wall, steady, boot_id
        self._boots: list[Boot] = []  # those since the grant of the earliest run whose exit is not stored
        self.jump_s = 0.0  # by how much the wall clock was set between the last start and this one
        self._anchor = self._anchored(max(last_at, wall()))

    @classmethod
    def of_this_machine(cls) -> Self:
        return cls(boot_id=this_boot())

    def now(self) -> float:
        return self._anchor.instant(self._steady())

    def wall(self) -> float:
        return self._wall()

    def _anchored(self, at: float) -> Anchor:
        return Anchor(self._boot_id, self._steady(), at, self._wall())

    # --- from one manager to the next ------------------------------------------------------------------

    def resume(
        self,
        stored: Mapping[str, Any] | None,
        last_at: float,
        *,
        open_runs: Sequence[int] = (),
        next_run_id: int = 1,
    ) -> None:
        """Go on from what a manager before has stored, never before the last instant of the journal.

        `open_runs` are those whose exit is not stored. They may be alive, so time goes on by what has
        elapsed. Without any, and after a boot, the wall clock counts.
        """
        at = max(last_at, self._wall())
        if stored is None:
            self._anchor = self._anchored(at)
            return
        before = Anchor(**stored["anchor"])
        boots = [Boot(**{**boot, "anchor": Anchor(**boot["anchor"])}) for boot in stored["boots"]]
        if before.boot_id != self._boot_id:
            boots.append(Boot(last_at, next_run_id, before))
            # A jump forwards cannot be distinguished from time for which the machine was off.
            self.jump_s = min(0.0, self._wall() - last_at)
        else:
            elapsed_s = self._steady() - before.elapsed_s
            self.jump_s = self._wall() - before.wall - elapsed_s
            if open_runs:
                at = max(last_at, before.at + elapsed_s)
        self._boots = [boot for boot in boots if open_runs and min(open_runs) < boot.next_run_id]
        self._anchor = self._anchored(at)

    def stored(self) -> dict[str, Any]:
        """What the next manager needs for `resume`."""
        return {"anchor": asdict(self._anchor), "boots": [asdict(boot) for boot in self._boots]}

    def instant_of(self, boot_id: str, elapsed_s: float) -> float | None:
        """The instant when so many seconds had elapsed in that boot; None if nothing is known of the boot."""
        anchors = (self._anchor, *(boot.anchor for boot in self._boots))
        found = next((anchor for anchor in anchors if boot_id and anchor.boot_id == boot_id), None)
        return None if found is None else found.instant(elapsed_s)

    def last_before_boot(self, run_id: int) -> float | None:
        """The last instant that was stored before the first boot after the grant of this run, if there was a
        boot: since then no process of the run can be alive."""
        return next((boot.last_at for boot in self._boots if run_id < boot.next_run_id), None)

    # --- reports ---------------------------------------------------------------------------------------

    @property
    def ahead_s(self) -> float:
        """By how much the wall clock is ahead of the manager's time."""
        return self._wall() - self.now()

    def problem(self) -> str:
        """What is wrong with the wall clock, in words; empty if nothing is."""
        ahead_s = self.ahead_s
        if abs(ahead_s) >= NOTICED_S:
            return (
                f"the wall clock is {_span(ahead_s)} {'ahead of' if ahead_s > 0 else 'behind'} the manager's"
                " time; begin times follow the wall clock, everything else follows the manager's time until"
                " the manager is started again while no job runs"
            )
        if abs(self.jump_s) >= NOTICED_S:
            direction = "forwards" if self.jump_s > 0 else "back"
            return (
                f"the wall clock was set {direction} by {_span(self.jump_s)} between the last start of the"
                " manager and this one; no run is charged for it"
            )
        return ""


def _span(seconds: float) -> str:
    seconds = abs(seconds)
    return f"{seconds:.0f} s" if seconds < DAY_S else f"{seconds / DAY_S:.1f} days"
