"""Wakes all streams of events together: soon after new facts, and now and then when there are none.

A stream that waits by itself needs timers and futures of its own, which cost more than what it sends. So the
streams wait for one instant: when there are facts that one of them has not seen, but not before a while has
passed since the last instant, however much happens.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tiresias.live.service import Service

CALM_S = 0.05  # between two instants,
CALM_OF_EACH_S = 0.005  # and so much more for each stream, because each is written to,
MOST_CALM_S = 0.5  # up to this
IDLE_S = 5.0  # after which all are woken although nothing has happened: some may owe a heartbeat


class Pulse:
    """`closing` is set when the manager ends; then nobody waits any more."""

    def __init__(self, service: Service, closing: asyncio.Event):
        self._service, self._closing = service, closing
        self._waiting: list[asyncio.Future[None]] = []
        self._closes: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_soon = False  # whether the timer is for facts that are there
        self._calm_until = 0.0

    async def wait(self, since_seq: int) -> None:
        """Return when there may be facts after this one, after IDLE_S, or when the manager ends."""
        if self._closing.is_set():
            return
        loop = asyncio.get_running_loop()
        if self._closes is None:
            self._closes = asyncio.create_task(self._closing.wait())
            self._closes.add_done_callback(lambda _: self._beat())
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        if self._service.last_seq > since_seq:
            self._soon()
        elif self._timer is None:
            self._timer = loop.call_later(IDLE_S, self._beat)
            self._watch()
        await waiter

    def _watch(self) -> None:
        seq = self._service.last_seq
        self._watcher = self._service.watch(seq)
        assert self._watcher is not None, "there is no fact after the last one"
        self._watcher.add_done_callback(lambda done: self._flushed(done, seq))

    def _flushed(self, done: asyncio.Future[None], seq: int) -> None:
        """The manager has written something, or nothing: that is so after each of its turns."""
        if done is not self._watcher or done.cancelled():
            return
        if self._service.last_seq > seq:
            self._soon()
        else:
            self._watch()

    def _soon(self) -> None:
        if self._is_soon:
            return
        self._rest()
        self._is_soon = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(max(loop.time(), self._calm_until), self._beat)

    def _beat(self) -> None:
        self._rest()
        woken, self._waiting = self._waiting, []
        calm_s = min(CALM_S + CALM_OF_EACH_S * len(woken), MOST_CALM_S)
        self._calm_until = asyncio.get_running_loop().time() + calm_s
        for waiter in woken:
            if not waiter.done():  # a stream whose reader has gone is cancelled
                waiter.set_result(None)

    def _rest(self) -> None:
        """Forget what was waited for."""
        self._is_soon = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watcher is not None:
            self._service.unwatch(self._watcher)
            self._watcher = None
