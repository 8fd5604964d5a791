"""An event loop in virtual time: whenever the service would wait, the simulation goes on instead.

It is asyncio's own loop, with its order of callbacks and timers. Only the waiting is another one, so that a
Service in it is a function of the events of the simulation, and of nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class VirtualLoop(asyncio.BaseEventLoop):
    """`wait` is called with the seconds until the next timer (None: there is none), once nothing is ready.

    `now` is the time of the loop; `is_readable` says whether a descriptor with a reader is readable.
    """

    def __init__(
        self,
        now: Callable[[], float],
        wait: Callable[[float | None], None],
        is_readable: Callable[[int], bool],
    ):
        super().__init__()
        self._now, self._wait, self._is_readable = now, wait, is_readable
        self._readers: dict[int, asyncio.Handle] = {}
        self._selector = self  # which BaseEventLoop asks for what is ready
        self.is_busy = False  # it does not look at descriptors until it waits again

    def time(self) -> float:
        return self._now()

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        """The readers that are ready. Without any, and with nothing else to do, time passes."""
        ready = self._ready_readers()
        if not ready and timeout != 0:
            self.is_busy = False
            self._wait(timeout)
            ready = self._ready_readers()
        return ready

    def _ready_readers(self) -> list[asyncio.Handle]:
        if self.is_busy:
            return []
        return [handle for fd, handle in self._readers.items() if self._is_readable(fd)]

    def _process_events(self, event_list: list[Any]) -> None:
        for handle in event_list:
            self._add_callback(handle)  # type: ignore[attr-defined]

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._readers[fd] = asyncio.Handle(callback, args, self, None)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None
