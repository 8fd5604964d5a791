"""Streams: how they take turns, wait, send heartbeats, and end with the manager or with their reader.

A stream awaits its turn before each piece. So however much there is to send, everything else runs between two
pieces, of all streams together one piece is made per turn of the event loop, and a stream whose reader has
gone is cancelled at its next turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from fastapi.responses import StreamingResponse

from tiresias.api import sse
from tiresias.api.state import State

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CALM_S = 0.1  # between two reads of the journal, however much happens


def stream(body: AsyncIterator[bytes], headers: dict[str, str] | None = None) -> StreamingResponse:
    return StreamingResponse(body, media_type=sse.MEDIA_TYPE, headers={**HEADERS, **(headers or {})})


async def turn(shared: State) -> None:
    """Let everything that is ready run first, and then those streams that have waited longer."""
    async with shared.turns:
        await asyncio.sleep(0)


class Waiting:
    """How one stream waits for new facts in the journal."""

    def __init__(self, shared: State):
        self._shared = shared
        self._sent_at = time.monotonic()

    @property
    def is_closing(self) -> bool:
        return self._shared.closing.is_set()

    def has_sent(self) -> None:
        """Something has been sent, so no heartbeat is due for a while."""
        self._sent_at = time.monotonic()

    async def turn(self) -> None:
        """Return when this stream may make one piece."""
        await turn(self._shared)

    def last_seq(self) -> int:
        """The number of the last fact. Ask before reading the journal, so that no fact is missed."""
        return self._shared.manager.store.last_seq

    async def wait(self, since_seq: int, most_s: float) -> bytes:
        """Wait up to `most_s` for facts after `since_seq`. Returns a heartbeat if one is due."""
        ends = self._ends()
        await asyncio.wait((ends,), timeout=CALM_S)
        watcher = self._shared.service.watch(since_seq)
        if watcher is not None and not self.is_closing:
            try:
                await asyncio.wait((ends, watcher), timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._shared.service.unwatch(watcher)
        return self.heartbeat()

    def _ends(self) -> asyncio.Future[Any]:
        """Done when the manager ends; the same for all streams, because a wait must cost little."""
        if self._shared.closes is None:
            self._shared.closes = asyncio.ensure_future(self._shared.closing.wait())
        return self._shared.closes

    async def wait_for(self, waited_for: Coroutine[Any, Any, None]) -> bytes:
        """Wait for something else. Returns a heartbeat if one is due."""
        waits = asyncio.ensure_future(waited_for)
        try:
            await asyncio.wait((self._ends(), waits), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waits.cancel()
        return self.heartbeat()

    def heartbeat(self) -> bytes:
        """A heartbeat if one is due."""
        if time.monotonic() - self._sent_at < sse.HEARTBEAT_S:
            return b""
        self.has_sent()
        return sse.HEARTBEAT
