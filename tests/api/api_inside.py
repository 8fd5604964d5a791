"""The API of a manager in the event loop of the test, so that the test sees what happens inside."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tiresias.api.app import create_app
from tiresias.api.server import ApiServer
from tiresias.api.sockets import listen_unix
from tiresias.live.service import Service


@contextlib.asynccontextmanager
async def answering(home: Path, service: Service, **more: Any) -> AsyncIterator[ApiServer]:
    """The API of this service on a Unix socket, in the event loop of the test."""
    app = create_app(service)
    started = asyncio.Event()
    server = ApiServer(app, started.set, **more)
    listening = listen_unix(home / "manager.sock")
    working = asyncio.create_task(service.run())
    serving = asyncio.create_task(server.serve([listening]))
    await started.wait()
    try:
        yield server
    finally:
        app.state.tiresias.closing.set()
        server.should_exit = True
        service.stop()
        await asyncio.gather(working, serving)


async def connected(home: Path, target: str) -> socket.socket:
    """A connection over which a request was sent and of whose answer nothing was read."""
    return await sent(home, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


async def sent(home: Path, data: bytes) -> socket.socket:
    reader = socket.socket(socket.AF_UNIX)
    reader.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(reader, str(home / "manager.sock"))
    await loop.sock_sendall(reader, data)
    return reader
