"""Streams of events wake together: soon, not too often, and never too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tiresias.api import pulse
from tiresias.api.pulse import Pulse


class Written:
    """The service, as far as streams wait for it."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.watching: set[asyncio.Future[None]] = set()

    def watch(self, since_seq: int) -> asyncio.Future[None] | None:
        if self.last_seq > since_seq:
            return None
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.watching.add(made)
        return made

    def unwatch(self, watcher: asyncio.Future[None]) -> None:
        self.watching.discard(watcher)

    def flush(self, facts: int) -> None:
        self.last_seq += facts
        for each in list(self.watching):
            each.set_result(None)
        self.watching.clear()


Story = Callable[[Written, Pulse, asyncio.Event], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    async def tell() -> None:
        service, closing = Written(), asyncio.Event()
        made = Pulse(service, closing)  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            await story(service, made, closing)

    asyncio.run(tell())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_all_are_woken_by_a_fact_and_not_by_a_flush_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "IDLE_S", 3600.0)

    async def story(service: Written, made: Pulse, closing: asyncio.Event) -> None:
        waits = [asyncio.create_task(made.wait(0)) for _ in range(3)]
        await settle()
        service.flush(0)
        await settle()
        assert not any(each.done() for each in waits)
        service.flush(1)
        await asyncio.gather(*waits)
        assert not service.watching

    told(story)


def test_whoever_has_not_seen_the_last_fact_is_woken_though_others_wait_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow reader that was written to while the others were woken must not miss its turn."""
    monkeypatch.setattr(pulse, "IDLE_S", 3600.0)

    async def story(service: Written, made: Pulse, closing: asyncio.Event) -> None:
        service.flush(5)
        others = asyncio.create_task(made.wait(5))
        await settle()
        await made.wait(4)
        await others

    told(story)


def test_between_two_instants_there_is_calm_which_grows_with_the_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse, "CALM_OF_EACH_S", 0.1)

    async def story(service: Written, made: Pulse, closing: asyncio.Event) -> None:
        service.flush(1)
        await asyncio.gather(*(made.wait(0) for _ in range(3)))
        began = asyncio.get_running_loop().time()
        await made.wait(0)
        assert asyncio.get_running_loop().time() - began >= 0.3

    told(story)


def test_when_nothing_happens_all_are_woken_for_their_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "IDLE_S", 0.01)

    async def story(service: Written, made: Pulse, closing: asyncio.Event) -> None:
        await asyncio.gather(*(made.wait(0) for _ in range(3)))
        assert not service.watching

    told(story)


def test_the_end_of_the_manager_wakes_all_and_then_nobody_waits() -> None:
    async def story(service: Written, made: Pulse, closing: asyncio.Event) -> None:
        waits = [asyncio.create_task(made.wait(0)) for _ in range(3)]
        await settle()
        waits[0].cancel()
        closing.set()
        assert await asyncio.gather(*waits[1:]) == [None, None]
        await made.wait(0)

    told(story)
