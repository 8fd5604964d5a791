"""Garbage collection in the process of a manager: no pause that grows with the number of jobs.

CPython searches all objects for cyclic garbage now and then, which takes half a second with 100,000 jobs in
memory. Nearly all of these objects stay until their job ends and are in no cycle, so that they are freed
without any search. Therefore what has survived one full search is left out of those that follow.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tiresias.live.manager import Manager

EVERYTHING_S = 3600.0  # between two searches of everything
IDLE_S = 1.0  # for so long nothing may be due


@contextmanager
def loading() -> Iterator[None]:
    """Keep what is loaded meanwhile out of garbage collection: it is large and stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def survivors_left_out() -> Iterator[None]:
    """Leave what a full search has found to be in use out of the later ones."""
    gc.callbacks.append(_leave_out)
    try:
        yield
    finally:
        gc.callbacks.remove(_leave_out)


def _leave_out(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


async def search_everything(manager: Manager) -> None:
    """Now and then, when nothing is due, search all objects, so that no cyclic garbage piles up."""
    while True:
        await asyncio.sleep(EVERYTHING_S)
        while manager.next_due_at < manager.now() + IDLE_S:
            await asyncio.sleep(IDLE_S)
        gc.unfreeze()
        gc.collect()
