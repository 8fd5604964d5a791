"""Compresses large answers for clients that accept it.

Rules: only answers to GET that are complete at once; streams pass as they are. An answer that contains a new
secret is one to POST, and is never compressed, because the length of a compressed answer can betray its
contents. A large answer is compressed in another thread, which does not hold up the manager.
"""

from __future__ import annotations

import asyncio
import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST_BYTES = 2048
LARGE_BYTES = 64 * 1024
LEVEL = 1  # ten thousand jobs in tens of milliseconds; the highest level takes ten times as long
KINDS = ("application/json", "text/")
STREAM = "text/event-stream"


class Compressed:
    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_wanted = (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and "gzip" in Headers(scope=scope).get("accept-encoding", "")
        )
        if not is_wanted:
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if _may_be(message):
                    start = message
                    return
            elif start is not None:
                begun, start = start, None
                if not message.get("more_body") and len(message.get("body", b"")) >= SMALLEST_BYTES:
                    message = {**message, "body": await _gzip(message["body"])}
                    headers = MutableHeaders(raw=begun["headers"])
                    headers["Content-Encoding"] = "gzip"
                    headers["Content-Length"] = str(len(message["body"]))
                    headers.add_vary_header("Accept-Encoding")
                await send(begun)
            await send(message)

        await self._app(scope, receive, compressed)


def _may_be(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "")
    return "content-encoding" not in headers and kind.startswith(KINDS) and not kind.startswith(STREAM)


async def _gzip(body: bytes) -> bytes:
    if len(body) < LARGE_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
