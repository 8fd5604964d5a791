"""The clocks of the simulated machine: the wall clock may jump, the monotonic clock restarts at a boot."""

from __future__ import annotations

from tiresias.testing.faults.world import World

EPOCH = 1_700_000_000.0


class Clocks:
    def __init__(self, world: World):
        self._world = world
        self._wall_offset_s = EPOCH
        self._booted_at = 0.0

    def wall(self) -> float:
        """Epoch seconds, wrong by all jumps of the clock."""
        return self._world.at + self._wall_offset_s

    def monotonic(self) -> float:
        """Seconds since the machine was booted."""
        return self._world.at - self._booted_at

    def jump(self, by_s: float) -> None:
        self._wall_offset_s += by_s

    def boot(self) -> None:
        self._booted_at = self._world.at
