"""The manager in an event loop: one thread, many requests, one commit for all that come together."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from tiresias.core.model import INFINITY, Phase
from tiresias.live.errors import Unavailable
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller
from tiresias.store import StoreError

log = logging.getLogger("tiresias")

RETRY_S = 1.0  # between two tries to write to a journal that cannot be written
SHORTEST_NAP_S = 0.002  # so that a manager with much to do still answers requests
LONGEST_NAP_S = 60.0  # timers of the loop do not count suspended time, and the wall clock may be set
ITSELF = Caller("manager", is_admin=True)


class Service:
    """Drives a Manager: executor, timers, group commits. Endpoints call it, then await `committed`."""

    def __init__(self, manager: Manager):
        self.manager = manager
        self._waiting: list[asyncio.Future[None]] = []
        self._watching: set[asyncio.Future[None]] = set()
        self._flush_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def last_seq(self) -> int:
        return self.manager.store.last_seq

    # --- for endpoints ---------------------------------------------------------------------------------

    async def committed(self) -> None:
        """Return when everything applied so far is durable. All callers that wait now share one commit."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(done)
        self._plan_flush()
        await done

    async def changed(self, since_seq: int, timeout_s: float) -> None:
        """Return when the journal has facts after this one, or when the time is over."""
        watcher = self.watch(since_seq)
        if watcher is None:
            return
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(watcher, timeout_s)
        finally:
            self.unwatch(watcher)

    def watch(self, since_seq: int) -> asyncio.Future[None] | None:
        """Done when the journal has facts after this one; None if it has. `unwatch` it afterwards."""
        if self.last_seq > since_seq:
            return None
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.add(watcher)
        return watcher

    def unwatch(self, watcher: asyncio.Future[None]) -> None:
        self._watching.discard(watcher)

    # --- running ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until `stop`."""
        loop = self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        loop.add_reader(self.manager.executor.fileno(), self._poll)
        self._poll()
        try:
            await self._stopped.wait()
        finally:
            loop.remove_reader(self.manager.executor.fileno())
            for handle in (self._flush_handle, self._timer):
                if handle is not None:
                    handle.cancel()
            self._flush()

    def stop(self, stop_jobs: bool = False) -> None:
        """End the service. Runs go on; with `stop_jobs` they are stopped and their jobs queued again."""
        if stop_jobs:
            for job in list(self.manager.state.jobs.values()):
                if job.run is not None and job.phase is not Phase.STOPPING:
                    self.manager.requests.requeue(ITSELF, job.id)
            self._flush()
        if self._stopped is not None:
            self._stopped.set()

    def _poll(self) -> None:
        self.manager.poll()
        self._plan_flush()

    def _plan_flush(self) -> None:
        """Flush soon, after everything that is ready to run now, so that it goes into the same commit."""
        assert self._loop is not None, "the service does not run"
        if self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_handle = None
        waiting, self._waiting = self._waiting, []
        try:
            self.manager.tick()
            self.manager.flush()
        except StoreError as error:
            log.error("cannot commit, trying again: %s", error)
            for done in waiting:
                if not done.done():
                    message = f"it is not certain that this was accepted: {error}; ask again"
                    done.set_exception(Unavailable(message))
            self._nap(RETRY_S)
            return
        for done in (*waiting, *self._watching):
            if not done.done():
                done.set_result(None)
        self._watching.clear()
        due_at = self.manager.next_due_at
        self._nap(LONGEST_NAP_S if due_at == INFINITY else due_at - self.manager.now())

    def _nap(self, seconds: float) -> None:
        """Look at the clock again after so many seconds, if nothing happens before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and not self._loop.is_closed():
            seconds = min(max(seconds, SHORTEST_NAP_S), LONGEST_NAP_S)
            self._timer = self._loop.call_later(seconds, self._plan_flush)
