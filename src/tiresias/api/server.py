"""The server: the manager's service and uvicorn in one event loop, until one of them ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from tiresias.api.app import create_app
from tiresias.api.connections import Acceptor, Connection, Connections, Deadlines
from tiresias.api.errors import was_inside
from tiresias.api.foresee import foresee
from tiresias.api.garbage import search_everything
from tiresias.api.peers import PeerProtocol
from tiresias.live.manager import Manager
from tiresias.live.service import Service

STREAMS_END_S = 5  # after the manager's end
SWEEP_TICKS = 5  # uvicorn has ten per second
FAILED = 1

log = logging.getLogger("tiresias.api")


async def serve(
    manager: Manager, sockets: list[socket.socket], names: Sequence[str], on_started: Callable[[], None]
) -> None:
    """Answer on the sockets, under these names, and run the manager, until it is asked to stop."""
    service = Service(manager)
    app = create_app(service, die, names)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _unexpected(context))
    server = ApiServer(app, on_started)
    working = asyncio.create_task(service.run())
    await asyncio.sleep(0)  # it runs: now it can be stopped
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    answering = asyncio.create_task(server.serve(sockets))
    beside = [asyncio.create_task(each) for each in (foresee(service), search_everything(manager))]
    try:
        await asyncio.wait((answering, working), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in beside:
            task.cancel()
        app.state.tiresias.closing.set()
        server.should_exit = True
        service.stop()
        await asyncio.gather(answering, working)


def die(problem: Exception) -> None:
    """End at once, as if killed. What was acknowledged is stored, and the next manager continues there."""
    log.critical("the manager ends because of a bug in Tiresias; start it again: tir up", exc_info=problem)
    logging.shutdown()
    os._exit(FAILED)


def _unexpected(context: dict[str, Any]) -> None:
    """An error that no caller waits for: fatal inside the manager, elsewhere a line in the log."""
    problem = context.get("exception")
    if isinstance(problem, Exception) and was_inside(problem):
        die(problem)
    log.error("%s", context.get("message"), exc_info=problem)


class ApiServer(uvicorn.Server):
    """Installs no signal handlers, bounds its connections, and reports when it is ready."""

    def __init__(
        self,
        app: ASGIApp,
        on_started: Callable[[], None],
        connections: Connections | None = None,
        deadlines: Deadlines | None = None,
    ):
        super().__init__(
            uvicorn.Config(
                app,
                http=PeerProtocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=STREAMS_END_S,
            )
        )
        self._on_started = on_started
        self._connections = connections or Connections()
        self._deadlines = deadlines or Deadlines()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        acceptors = [Acceptor(each, self._connections, self._protocol) for each in sockets or []]
        self.servers = acceptors  # type: ignore[assignment]  # they are closed as servers are
        self.started = True
        self._on_started()

    def _protocol(self, connection: Connection) -> PeerProtocol:
        made = PeerProtocol(config=self.config, server_state=self.server_state, app_state={})
        made.watch(connection, self._connections, self._deadlines)
        return made

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self._connections.close_overdue(time.monotonic())
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
