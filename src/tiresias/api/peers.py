"""The peer of a connection: who it is, as the kernel reports it, and whether it keeps to the deadlines."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

    from tiresias.api.connections import Connection, Connections, Deadlines

PEER = "tiresias.peer"
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid


@dataclass(slots=True, frozen=True)
class Peer:
    """The process that opened the connection, as it was then."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer | None:
    """None where the connection is not a Unix socket."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that puts the peer into the scope of each request, and knows what the peer is late with."""

    _connection: Connection
    _connections: Connections
    _deadlines: Deadlines
    _head_since: float | None = None  # while a head is awaited; None while the connection is merely kept open
    _body_since: float | None = None
    _body_bytes = 0
    _untaken: tuple[int, float] | None = None  # bytes of an answer that wait for the peer, and since when

    def watch(self, connection: Connection, connections: Connections, deadlines: Deadlines) -> None:
        """What this is the protocol of; called once, before the connection is made."""
        self._connection = connection
        self._connections = connections
        self._deadlines = deadlines

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_since = time.monotonic()
        self._connection.protocol = self
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is not None:
            self.app = _with_peer(self.app, peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.release(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        if self._head_since is None and self._body_since is None:
            self._head_since = time.monotonic()
        self._body_bytes += len(data)
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            if cycle is not self.cycle or self._body_since is None:
                self._body_since, self._body_bytes = time.monotonic(), 0
            self._head_since = None
        else:
            self._body_since = None
            if self.conn.their_state is not h11.IDLE or cycle is not self.cycle:
                self._head_since = None

    @property
    def is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def overdue(self, now: float) -> str | None:
        allowed = self._deadlines
        if self._head_since is not None and now - self._head_since > allowed.head_s:
            return f"no whole request within {allowed.head_s:g} s"
        if self._body_since is not None:
            body_s = allowed.body_s + self._body_bytes / allowed.body_bytes_per_s
            if now - self._body_since > body_s:
                return f"the body of a request was not complete after {body_s:.0f} s"
        return self._untaken_since(now)

    def _untaken_since(self, now: float) -> str | None:
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0:
            self._untaken = None
            return None
        before, since = self._untaken or (waiting, now)
        if before - waiting >= self._deadlines.taken_bytes:
            since = now
        self._untaken = (waiting if since == now else max(before, waiting)), since
        if now - since <= self._deadlines.taken_s:
            return None
        return f"less than {self._deadlines.taken_bytes} bytes taken within {self._deadlines.taken_s:g} s"

    def resume_writing(self) -> None:
        self._untaken = None  # most of what was waiting has been taken
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the form that all errors have."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer has begun
            return
        body = json.dumps({"error": {"code": "invalid", "message": f"{msg} Send HTTP/1.1."}}).encode()
        headers = [("Content-Type", "application/json"), ("Connection", "close")]
        headers.append(("Content-Length", str(len(body))))
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _with_peer(app: ASGI3Application, peer: Peer) -> ASGI3Application:
    async def called(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        extended: dict[str, Any] = {**scope, PEER: peer}
        await app(extended, receive, send)  # type: ignore[arg-type]

    return called
