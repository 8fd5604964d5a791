"""The event loop of a gang executor, in a thread of its own, with the threads that read the folder for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tiresias.executors import heartbeat
from tiresias.executors.gang_transport import RETRY_S

READERS = 16  # threads that read the folder for silent nodes; any of them may hang there

T = TypeVar("T")


class GangLoop:
    """`on_failure` is called in the loop with what a task has raised."""

    def __init__(self, on_failure: Callable[[BaseException], None]):
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers = ThreadPoolExecutor(READERS, "reads the folder")
        self._loop = asyncio.new_event_loop()

    def begin(self, at_end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the thread; `at_end` is awaited when all tasks have ended."""
        self._at_end = at_end
        self._thread = threading.Thread(target=self._serve, name="gangs", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._readers.shutdown(wait=False, cancel_futures=True)

    def call(self, do: Callable[..., object], *arguments: Any) -> None:
        """Call in the loop; for other threads."""
        self._loop.call_soon_threadsafe(do, *arguments)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def now(self) -> float:
        """Seconds that elapse while the machine is suspended, too."""
        return heartbeat.now()

    async def in_thread(self, do: Callable[..., T], *arguments: Any) -> T:
        """Call in a thread: the folder may be slow."""
        return await asyncio.to_thread(do, *arguments)

    async def in_folder(self, do: Callable[..., T], *arguments: Any) -> T:
        """Call in one of a few threads, which are not those that begin and end runs elsewhere."""
        return await self._loop.run_in_executor(self._readers, do, *arguments)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
            self._loop.run_until_complete(self._at_end())
        finally:
            self._loop.close()

    async def _end_tasks(self) -> None:
        """Again and again: `wait_for` loses a cancellation that comes together with an answer."""
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=RETRY_S)
