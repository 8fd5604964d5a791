"""Connections that ask for nothing, ask slowly or do not read: they lock nobody out, and they are closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from api_inside import answering, connected, sent
from api_server import DEADLINE_S, Server, job, until_ended

from tiresias.api.connections import Connection, Connections, Deadlines, Limits
from tiresias.live.service import Service
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

DESCRIPTORS = 160
HALF_A_HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
HALF_A_BODY = HALF_A_HEAD + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


@contextmanager
def half_open(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Connections over TCP, each with the beginning of a request."""
    about = server.about
    assert about is not None
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            each = socket.create_connection(("127.0.0.1", int(about["url"].rpartition(":")[2])), DEADLINE_S)
            stack.enter_context(each)
            each.sendall(HALF_A_HEAD)
            opened.append(each)
        yield opened


def test_half_open_requests_neither_lock_out_an_admin_nor_end_the_manager(tmp_path):
    """More of them than the manager may open descriptors."""
    server = Server(tmp_path / "h", descriptors=DESCRIPTORS, listen="127.0.0.1:0").start()
    try:
        with half_open(server, 2 * DESCRIPTORS):
            with server.client() as admin:
                [id] = admin.submit(job("echo", "it ran"))
                assert until_ended(admin, id)["phase"] == "SUCCEEDED"
                assert admin.logs(id) == b"it ran\n"
                token = admin.create_token("ada", "daemon")
            with server.client(token) as user:  # over TCP, from the same address
                assert user.whoami()["user"] == "daemon"
            open_files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
            assert open_files < DESCRIPTORS
        assert "Traceback" not in server.log()
    finally:
        assert server.stop() == 0


def test_a_connection_that_waits_makes_room_and_one_that_works_does_not():
    connections = Connections(Limits(in_all=8, per_peer=2, for_admins=2))
    first, second, third, fourth = (Connection("a", False) for _ in range(4))
    for each, is_waiting in ((first, False), (second, True)):
        each.protocol = Stand(is_waiting)
        assert connections.admit(each)
    assert connections.admit(third)
    assert (first.protocol.is_aborted, second.protocol.is_aborted) == (False, True)
    third.protocol = Stand(is_waiting=False)
    assert not connections.admit(fourth)
    connections.release(first)
    connections.release(first)
    assert connections.admit(fourth)


def test_some_connections_are_kept_for_admins_and_none_is_taken_from_them():
    connections = Connections(Limits(in_all=8, per_peer=8, for_admins=2))
    users = [Connection(f"address {number}", False) for number in range(7)]
    for each in users:
        each.protocol = Stand(is_waiting=False)
    assert [connections.admit(each) for each in users] == [True] * 6 + [False]
    admins = [Connection("uid 0", True) for _ in range(3)]
    for each in admins:
        each.protocol = Stand(is_waiting=True)
    assert [connections.admit(each) for each in admins[:2]] == [True, True]
    assert not connections.admit(users[6])
    assert not admins[0].protocol.is_aborted
    assert connections.admit(admins[2])  # in the place of another admin that waits
    assert admins[0].protocol.is_aborted


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 100_000])
def test_half_of_the_descriptors_are_kept_for_the_manager(descriptors):
    limits = Limits.of_descriptors(descriptors)
    assert limits.in_all <= descriptors // 2
    assert limits.for_admins < limits.per_peer < limits.in_all


class Stand:
    """The protocol of a connection, as far as connections are counted."""

    def __init__(self, is_waiting: bool):
        self.is_waiting = is_waiting
        self.is_aborted = False
        self.transport = self

    def abort(self) -> None:
        self.is_aborted = True

    def overdue(self, now: float) -> str | None:
        return None


def closed_by_the_server(tmp_path: Path, deadlines: Deadlines, data: bytes) -> None:
    """Returns when the server has closed the connection; a request before it is answered."""

    async def scenario() -> None:
        with still_manager(tmp_path, 1) as (manager, _):
            async with answering(tmp_path, Service(manager), deadlines=deadlines):
                loop = asyncio.get_running_loop()
                client = await sent(tmp_path, data)
                try:
                    while await loop.sock_recv(client, 4096):
                        pass
                except ConnectionResetError:
                    pass
                client.close()
                other = await connected(tmp_path, "/healthz")
                assert (await loop.sock_recv(other, 12)) == b"HTTP/1.1 200"
                other.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


@pytest.mark.parametrize("data", [b"", HALF_A_HEAD], ids=["nothing", "half a head"])
def test_a_request_whose_head_does_not_arrive_is_given_up(tmp_path, data):
    closed_by_the_server(tmp_path, Deadlines(0.1, 3600.0, 1, 3600.0, 1), data)


def test_a_request_whose_body_does_not_arrive_is_given_up(tmp_path):
    closed_by_the_server(tmp_path, Deadlines(3600.0, 0.1, 1 << 20, 3600.0, 1), HALF_A_BODY)


def test_a_reader_that_does_not_read_is_disconnected_and_one_that_reads_is_not(tmp_path):
    deadlines = Deadlines(3600.0, 3600.0, 1, 0.5, 16 * 1024)

    async def scenario() -> None:
        with still_manager(tmp_path, 1) as (manager, _):
            admin = Caller("ann", is_admin=True)
            [id] = manager.requests.submit(admin, [Submission(("true",), "/", {}, gpus=1)])
            for _ in range(2):
                manager.flush()
                manager.poll()
            path = manager.queries.log_file(admin, id, None, 0).path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"0123456789abcde\n" * (1 << 18))
            async with answering(tmp_path, Service(manager), deadlines=deadlines) as server:
                loop = asyncio.get_running_loop()
                target = f"/api/v1/jobs/{id}/logs?follow=true"
                idle = await connected(tmp_path, target)
                reading = await connected(tmp_path, target)
                received = bytearray()

                async def read() -> None:
                    while b"the last line" not in received[-1000:]:
                        part = await loop.sock_recv(reading, 1 << 20)
                        assert part, "the reader that reads was disconnected"
                        received.extend(part)

                taking = asyncio.create_task(read())
                while len(server.server_state.connections) > 1:
                    await asyncio.sleep(0.01)
                with path.open("ab") as log:
                    log.write(b"the last line\n")
                await taking
                idle.close()
                reading.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_what_is_no_http_is_refused_like_everything_else(server):
    with socket.create_connection(("127.0.0.1", int(server.about["url"].rpartition(":")[2]))) as client:
        client.sendall(b"what is this\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"code": "invalid"' in answer
