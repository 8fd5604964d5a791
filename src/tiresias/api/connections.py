"""The connections of a manager: how many there may be, and how long each may take.

Rules: half of the descriptors that the process may open are kept for the manager itself. A peer is a user on
the Unix socket or an address on TCP, and may have a quarter of the connections; some are kept for admins on
the Unix socket. When there is no room, the connection that has waited longest for a request is closed; if
every connection has a request in progress, the new one is refused. A request must arrive, and its answer must
be taken, within deadlines; otherwise the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tiresias.api.peers import peer_of

MOST_CONNECTIONS = 512
ACCEPTED_PER_TURN = 16  # so that a flood of connections does not keep the event loop
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_S = 1.0  # in accepting, if the machine has no descriptors or no memory
LOG_EVERY_S = 60.0

log = logging.getLogger("tiresias.api")


@dataclass(slots=True, frozen=True)
class Limits:
    """How many connections may be open: together, per peer, and of those only for admins."""

    in_all: int
    per_peer: int
    for_admins: int

    @classmethod
    def of_descriptors(cls, descriptors: int) -> Limits:
        in_all = max(8, min(MOST_CONNECTIONS, descriptors // 2))
        return cls(in_all, max(4, in_all // 4), max(2, in_all // 16))

    @classmethod
    def of_process(cls) -> Limits:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls.of_descriptors(2 * MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft)


@dataclass(slots=True, frozen=True)
class Deadlines:
    """Within which time a client must do its part."""

    head_s: float = 10.0  # the line and the headers of a request, from the connection or the first byte on
    body_s: float = 30.0  # the body of a request, and a second more per `body_bytes_per_s`
    body_bytes_per_s: int = 32 * 1024
    taken_s: float = 30.0  # within which at least `taken_bytes` of a waiting answer must be taken
    taken_bytes: int = 16 * 1024


class Served(Protocol):
    """What is asked of the protocol of a connection."""

    transport: asyncio.Transport

    @property
    def is_waiting(self) -> bool:
        """Whether no request is in progress."""

    def overdue(self, now: float) -> str | None:
        """Which deadline the client has missed, if any."""


class Connection:
    """One open connection; `protocol` is None until there is one."""

    __slots__ = ("is_admin", "peer", "protocol")

    def __init__(self, peer: str, is_admin: bool):
        self.peer = peer
        self.is_admin = is_admin
        self.protocol: Served | None = None


class Connections:
    """All connections, oldest first."""

    def __init__(self, limits: Limits | None = None):
        self.limits = limits or Limits.of_process()
        self._open: dict[Connection, None] = {}
        self._per_peer: Counter[str] = Counter()
        self._admins = 0
        self._refused = 0
        self._logged_at = -LOG_EVERY_S

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Count a new connection, unless there is no room for it."""
        while not self._has_room(connection):
            victim = self._longest_waiting(connection)
            if victim is None:
                self._note_refusal(connection)
                return False
            assert victim.protocol is not None
            victim.protocol.transport.abort()
            self.release(victim)
        self._open[connection] = None
        self._per_peer[connection.peer] += 1
        self._admins += connection.is_admin
        return True

    def release(self, connection: Connection) -> None:
        """The connection is closed. It may be released again, without effect."""
        if connection in self._open:
            del self._open[connection]
            self._per_peer[connection.peer] -= 1
            if not self._per_peer[connection.peer]:
                del self._per_peer[connection.peer]
            self._admins -= connection.is_admin

    def close_overdue(self, now: float) -> None:
        for connection in list(self._open):
            if connection.protocol is not None and (missed := connection.protocol.overdue(now)):
                log.info("closed a connection of %s: %s", connection.peer, missed)
                connection.protocol.transport.abort()

    def _has_room(self, new: Connection) -> bool:
        if self._per_peer[new.peer] >= self.limits.per_peer:
            return False
        if new.is_admin:
            return len(self._open) < self.limits.in_all
        return (
            len(self._open) - self._admins < self.limits.in_all - self.limits.for_admins - self._admins_over
        )

    @property
    def _admins_over(self) -> int:
        """How many connections of admins are beyond those that are kept for them."""
        return max(0, self._admins - self.limits.for_admins)

    def _longest_waiting(self, new: Connection) -> Connection | None:
        of_peer = self._per_peer[new.peer] >= self.limits.per_peer
        for each in self._open:
            is_candidate = each.peer == new.peer if of_peer else new.is_admin or not each.is_admin
            if is_candidate and each.protocol is not None and each.protocol.is_waiting:
                return each
        return None

    def _note_refusal(self, connection: Connection) -> None:
        self._refused += 1
        now = time.monotonic()
        if now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "refused a connection of %s, which has %d of %d connections; %d refused since the start",
                connection.peer,
                self._per_peer[connection.peer],
                len(self._open),
                self._refused,
            )


def _refusal() -> bytes:
    text = "too many connections are open; close some, or try again later"
    body = json.dumps({"error": {"code": "unavailable", "message": text}}).encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + body


REFUSAL = _refusal()


def connection_of(accepted: socket.socket, address: Any) -> Connection:
    peer = peer_of(accepted)
    if peer is not None:
        return Connection(f"uid {peer.uid}", peer.uid in (0, os.geteuid()))
    return Connection(_network(address[0]), is_admin=False)


def _network(address: str) -> str:
    """The address; of an IPv6 address its /64, which one machine can have whole."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


class Acceptor:
    """Accepts the connections of one listening socket; stands in for an asyncio server."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        make_protocol: Callable[[Connection], asyncio.Protocol],
    ):
        self._listening = listening
        self._connections = connections
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listening.fileno())

    async def wait_closed(self) -> None:
        """All connections that were accepted have a protocol, or are closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                log.error("cannot accept connections (%s); trying again in %g s", error.strerror, PAUSE_S)
                self._loop.remove_reader(self._listening.fileno())
                self._loop.call_later(PAUSE_S, self._resume)
                return
            self._take(accepted, address)

    def _take(self, accepted: socket.socket, address: Any) -> None:
        accepted.setblocking(False)
        connection = connection_of(accepted, address)
        if not self._connections.admit(connection):
            with contextlib.suppress(OSError):
                accepted.send(REFUSAL)
            accepted.close()
            return
        task = self._loop.create_task(self._connect(accepted, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make_protocol(connection), accepted)
        except OSError:
            accepted.close()
            self._connections.release(connection)
