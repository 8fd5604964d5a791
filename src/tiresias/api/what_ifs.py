"""The processes that compute what-ifs: one per user, a few at once, ended with whoever asked."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from dataclasses import dataclass, field

from tiresias.live.errors import Unavailable

MOST_AT_ONCE = 2
BUSY = "others are computing a what-if at present; try again in a minute"
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
LONGEST_LINE = 1024 * 1024


@dataclass(slots=True)
class Running:
    """The what-if of one user. `is_replaced` is set when a new one ends it."""

    process: Process | None = None
    is_replaced: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


class WhatIfs:
    """The what-ifs that run, by user."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}

    def check(self, user: str) -> None:
        """Unavailable if there is no room for another user's."""
        if user not in self._running and len(self._running) >= MOST_AT_ONCE:
            raise Unavailable(BUSY)

    async def begin(self, user: str) -> Running:
        """Room for one of this user, after their former one has ended."""
        while (former := self._running.get(user)) is not None:
            former.is_replaced = True
            _kill(former)
            await former.over.wait()
        self.check(user)
        self._running[user] = made = Running()
        return made

    async def end(self, user: str, running: Running) -> None:
        _kill(running)
        if running.process is not None:
            await running.process.wait()
        if self._running.get(user) is running:
            del self._running[user]
        running.over.set()


def _kill(running: Running) -> None:
    if running.process is not None and running.process.returncode is None:
        with suppress(ProcessLookupError):
            running.process.kill()


async def spawn() -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tiresias.api.what_if_child",
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd="/", limit=LONGEST_LINE,
        env={**os.environ, **ONE_THREAD},
    )  # fmt: skip
