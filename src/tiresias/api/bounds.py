"""Limits of what a request may cost before its caller is known and while it is read.

Rules: the caller of a request that may change something must be known before its body is read. A body is
bounded in bytes and in values. A large one is parsed in another thread, one at a time, so that it
delays other requests as little as possible.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiresias.api.callers import caller_of
from tiresias.api.described import Described
from tiresias.api.errors import error, refused
from tiresias.api.request_limits import LARGEST_BODY_BYTES, MIB, MOST_VALUES, values_in
from tiresias.api.state import state_of
from tiresias.live.errors import Refused

LARGE_BYTES = 64 * 1024
READING = ("GET", "HEAD", "OPTIONS")
TOO_LARGE = f"the request is larger than {LARGEST_BODY_BYTES // MIB} MiB; send it in parts"
TOO_MANY = f"the request has more than {MOST_VALUES:,} values; send it in parts"


class Bounded:
    """Refuses callers that are not known and bodies that are too large, before the body is read."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST_BODY_BYTES):
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal: Response | None = None
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._largest:
            refusal = error(413, "invalid", TOO_LARGE)
        elif scope["method"] not in READING:
            try:
                await caller_of(Request(scope))
            except Refused as problem:
                refusal = refused(problem)
        if refusal is not None:
            refusal.headers["Connection"] = "close"  # the rest is not even read
            await refusal(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._largest:
                raise HTTPException(413, TOO_LARGE)
            return message

        await self._app(scope, counted, send)


class BoundedRequest(Request):
    """A request whose body is parsed within limits."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            if values_in(body) > MOST_VALUES:
                raise HTTPException(413, TOO_MANY)
            if len(body) < LARGE_BYTES:
                self._json = json.loads(body)
            else:
                async with state_of(self).large_bodies:
                    self._json = await asyncio.to_thread(json.loads, body)
        return self._json


class BodyRoute(Described):
    """A route whose request has a body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(BoundedRequest(request.scope, request.receive))

        return handled
