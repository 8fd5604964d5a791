"""Tokens that are not known: each is logged, and peers that keep sending them get delayed answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

FREE = 3  # a mistyped or revoked token or two delay nothing
FIRST_S, LONGEST_S = 0.25, 8.0  # the delay doubles with each failure
FORGOTTEN_S = 300.0  # after the last failure of a peer
MOST_PEERS = 1024

log = logging.getLogger("tiresias.api.requests")


class FailedTokens:
    """Counts failures per address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}  # the latest is at the end

    def note(self, address: str) -> float:
        """Log one more failure; return for how many seconds its answer is to be delayed."""
        now = self._clock()
        count, at = self._failures.pop(address, (0, now))
        count = 1 if now - at > FORGOTTEN_S else count + 1
        while len(self._failures) >= MOST_PEERS:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = count, now
        log.warning("a token that is not known, from %s; %d in a row", address, count)
        return 0.0 if count <= FREE else float(min(LONGEST_S, FIRST_S * 2 ** min(count - FREE - 1, 10)))

    async def delay(self, address: str) -> None:
        await asyncio.sleep(self.note(address))
