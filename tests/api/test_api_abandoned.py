"""Readers that leave: their streams end, and the manager does not work for them any more."""

from __future__ import annotations

import asyncio

import pytest
from api_inside import answering, connected
from api_server import DEADLINE_S

from tiresias.api import logs
from tiresias.live.manager import Manager
from tiresias.live.queries import Queries
from tiresias.live.service import Service
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ADMIN = Caller("ann", is_admin=True)
PIECES = 2_000  # of a long log


def a_running_job(manager: Manager) -> int:
    [id] = manager.requests.submit(ADMIN, [Submission(("true",), "/", {}, gpus=1)])
    for _ in range(2):
        manager.flush()
        manager.poll()
    return id


def write_long_log(manager: Manager, id: int) -> None:
    path = manager.queries.log_file(ADMIN, id, None, 0).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789abcde\n" * 1024 * PIECES)


@pytest.fixture
def pieces_read(monkeypatch):
    """The offsets at which logs were read."""
    offsets: list[int] = []

    def counted(path, offset, *, whole):
        offsets.append(offset)
        return original(path, offset, whole=whole)

    original = logs.read_text
    monkeypatch.setattr(logs, "read_text", counted)
    return offsets


@pytest.mark.parametrize("followers", [1, 10])
def test_a_long_log_is_not_read_for_followers_that_have_left(tmp_path, pieces_read, followers):
    async def scenario() -> None:
        with still_manager(tmp_path, 1) as (manager, _):
            id = a_running_job(manager)
            write_long_log(manager, id)
            async with answering(tmp_path, Service(manager)) as server:
                loop = asyncio.get_running_loop()
                target = f"/api/v1/jobs/{id}/logs?follow=true"
                readers = [await connected(tmp_path, target) for _ in range(followers)]
                for reader in readers:
                    assert (await loop.sock_recv(reader, 12)) == b"HTTP/1.1 200"
                for reader in readers:
                    reader.close()
                while server.server_state.tasks:
                    await asyncio.sleep(0.01)
        assert len(pieces_read) < PIECES

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


@pytest.mark.parametrize("target", ["/api/v1/events?follow=true", "/api/v1/events"])
def test_everything_else_runs_between_two_pieces_of_events(tmp_path, monkeypatch, target):
    turns, seen = 0, []
    original = Queries.events

    def noted(*arguments):
        seen.append(turns)
        return original(*arguments)

    async def scenario() -> None:
        nonlocal turns
        with still_manager(tmp_path, 1) as (manager, _):
            manager.requests.submit(ADMIN, [Submission(("true",), "/", {}, gpus=1) for _ in range(500)])
            manager.flush()
            monkeypatch.setattr(Queries, "events", noted)
            async with answering(tmp_path, Service(manager)):
                reader = await connected(tmp_path, target)
                while len(seen) < 10:
                    turns += 1
                    await asyncio.sleep(0)
                reader.close()
        assert len(set(seen[:10])) == 10, "two pieces were made in one turn of the event loop"

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
