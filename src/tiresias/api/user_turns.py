"""Work in another thread, one piece at a time: what a request costs that reads or computes much.

Threads share the interpreter with the manager, and several that compute make its decisions wait. One piece of
each user waits for its turn, and the others of that user wait behind it: so nobody waits for more than one
piece of each other user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class UserTurns:
    """The turns of one kind of work."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._of_users: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def work(self, user: str, function: Callable[[], T]) -> T:
        """What the function returns, once it is its turn."""
        own = self._of_users.setdefault(user, asyncio.Lock())
        async with own:
            await self._all.acquire()
            working = asyncio.ensure_future(asyncio.to_thread(function))
            # Not at the end of this block: the thread goes on if whoever asked has left.
            working.add_done_callback(lambda _: self._all.release())
            return await asyncio.shield(working)
