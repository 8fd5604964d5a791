"""Garbage collection in a manager: what survives is searched once, and no cyclic garbage piles up."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tiresias.api import garbage


class Cyclic:
    def __init__(self) -> None:
        self.me = self


@dataclass
class Schedule:
    """What `search_everything` looks at of a manager."""

    next_due_at: float
    looks: int = 0

    def now(self) -> float:
        self.looks += 1
        if self.looks == 3:
            self.next_due_at = 1e9
        return 0.0


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.collect()


def test_what_a_full_search_has_found_in_use_is_left_out_of_the_next_one() -> None:
    kept = [[number] for number in range(1000)]
    before = gc.get_freeze_count()
    with garbage.survivors_left_out():
        gc.collect(1)
        assert gc.get_freeze_count() <= before, "only a full search knows what is in use"
        gc.collect()
    assert gc.get_freeze_count() > before + len(kept)
    assert not any(each is kept for each in gc.get_objects())
    later = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= later, "it ends with its context"


def test_garbage_that_was_left_out_is_found_when_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "EVERYTHING_S", 0.0)
    monkeypatch.setattr(garbage, "IDLE_S", 0.001)
    schedule = Schedule(next_due_at=0.0005)

    async def until_gone() -> None:
        task = asyncio.create_task(garbage.search_everything(schedule))
        while found() is not None:
            await asyncio.sleep(0)
        task.cancel()

    with garbage.survivors_left_out():
        one = Cyclic()
        found = weakref.ref(one)
        gc.collect()
        del one
        gc.collect()
        assert found() is not None, "it was left out"
        asyncio.run(asyncio.wait_for(until_gone(), 60))
    assert schedule.looks >= 3, "something was due until then"
