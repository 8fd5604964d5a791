"""Runs a dashboard on loopback until it is interrupted."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from tiresias.api.local_pages import LocalPages
from tiresias.api.server import ApiServer
from tiresias.api.sockets import listen_tcp


async def _serve(dashboard: LocalPages, port: int, on_ready: Callable[[], None]) -> None:
    with listen_tcp(f"127.0.0.1:{port}", has_tokens=False) as listening:
        dashboard.port = listening.getsockname()[1]
        server = ApiServer(dashboard, on_ready)

        def stop() -> None:
            # A request that ends with this process is no error.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            server.should_exit = True
            server.force_exit = True  # streams have no end of their own

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await server.serve([listening])


def serve_dashboard(dashboard: LocalPages, port: int, on_ready: Callable[[], None]) -> None:
    """Answer on this port of loopback, 0 for a free one; `on_ready` is called in the event loop."""
    asyncio.run(_serve(dashboard, port, on_ready))
