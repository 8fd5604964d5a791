"""The process at the other end of a Unix socket, as the kernel reports it, in the scope of each request."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

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
    """HTTP/1.1 that puts the peer into the scope of each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is not None:
            self.app = _with_peer(self.app, peer)


def _with_peer(app: ASGI3Application, peer: Peer) -> ASGI3Application:
    async def called(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        extended: dict[str, Any] = {**scope, PEER: peer}
        await app(extended, receive, send)  # type: ignore[arg-type]

    return called
