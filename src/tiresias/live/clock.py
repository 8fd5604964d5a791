"""The only wall clock. Instants are epoch seconds and never decrease, whatever the machine's clock does."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time


class Clock:
    """`now` follows the wall clock forwards and the monotonic one otherwise.

    `last_at` is the last instant that was stored: a machine that was started with its clock in the past
    goes on from there.
    """

    def __init__(
        self,
        last_at: float = 0.0,
        *,
        wall: Callable[[], float] = time,
        steady: Callable[[], float] = monotonic,
    ):
        self._wall, self._steady = wall, steady
        self._at = last_at
        self._then = steady()

    def now(self) -> float:
        then = self._steady()
        self._at = max(self._at + (then - self._then), self._wall())
        self._then = then
        return self._at

    def at_least(self, at: float) -> None:
        """Go on from this instant, if it is later than what the clock says."""
        self._at = max(self._at, at)
