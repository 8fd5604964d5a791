"""Answers that go on: how they wait, show that they are alive, and end when the manager does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from fastapi.responses import StreamingResponse

from tiresias.api import sse
from tiresias.api.state import State

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CALM_S = 0.05  # between two looks, however much happens


def stream(body: AsyncIterator[bytes], headers: dict[str, str] | None = None) -> StreamingResponse:
    return StreamingResponse(body, media_type=sse.MEDIA_TYPE, headers={**HEADERS, **(headers or {})})


class Waiting:
    """One stream's waits for something new in the journal."""

    def __init__(self, shared: State):
        self._shared = shared
        self._told_at = time.monotonic()

    @property
    def is_closing(self) -> bool:
        return self._shared.closing.is_set()

    def told(self) -> None:
        """The reader has been sent something."""
        self._told_at = time.monotonic()

    def last_seq(self) -> int:
        """The last fact that there is; to be asked before one looks, so that nothing is missed."""
        return self._shared.manager.store.last_seq

    async def wait(self, since_seq: int, most_s: float) -> bytes:
        """Until there are facts after `since_seq`, or so long at most; a sign of life if one is due."""
        await self._unless_closing(asyncio.sleep(CALM_S))
        await self._unless_closing(self._shared.service.changed(since_seq, most_s))
        if time.monotonic() - self._told_at < sse.HEARTBEAT_S:
            return b""
        self.told()
        return sse.HEARTBEAT

    async def _unless_closing(self, waited_for: Coroutine[Any, Any, None]) -> None:
        ends = asyncio.ensure_future(self._shared.closing.wait())
        waits = asyncio.ensure_future(waited_for)
        try:
            await asyncio.wait((ends, waits), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ends.cancel()
            waits.cancel()
