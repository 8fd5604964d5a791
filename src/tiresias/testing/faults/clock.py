"""The clocks of the simulated machine: the wall clock may jump, the other one restarts at a boot."""

from __future__ import annotations

from collections.abc import Callable

EPOCH = 1_700_000_000.0


class Clocks:
    """`true_at` is the true time of the World, which no clock of the manager can be asked for."""

    def __init__(self, true_at: Callable[[], float]):
        self._true_at = true_at
        self._wall_offset_s = EPOCH
        self._booted_at = 0.0
        self._jumps: list[tuple[float, float]] = []  # the true time, and what the wall clock said before

    def wall(self) -> float:
        """Epoch seconds, wrong by all jumps of the clock."""
        return self._true_at() + self._wall_offset_s

    def elapsed(self) -> float:
        """Seconds since the machine was booted."""
        return self._true_at() - self._booted_at

    def latest_wall(self, within_s: float) -> float:
        """The latest that the wall clock has said in the last `within_s` seconds of true time."""
        since = self._true_at() - within_s
        return max([self.wall(), *(wall for at, wall in self._jumps if at >= since)])

    def jump(self, by_s: float) -> None:
        self._jumps.append((self._true_at(), self.wall()))
        self._wall_offset_s += by_s

    def set_right(self) -> None:
        self.jump(EPOCH - self._wall_offset_s)

    def boot(self) -> None:
        self._booted_at = self._true_at()
