"""A limit for the size of requests, so that none can fill the manager's memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiresias.api.errors import error

LARGEST_BODY_BYTES = 64 * 1024 * 1024
TOO_LARGE = f"the request is larger than {LARGEST_BODY_BYTES} bytes; send it in parts"


class Bounded:
    """Refuses bodies that are too large, whether their length is announced or not."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST_BODY_BYTES):
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._largest:
            refusal = error(413, "invalid", TOO_LARGE)
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
