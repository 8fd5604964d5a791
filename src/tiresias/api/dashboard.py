"""The process of `tir dashboard`: it serves the pages on loopback, and passes the API on with its own rights.

Rules: those of local pages. Tokens of the manager cannot be had through it: they would outlive the session.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tiresias.api.local_pages import API, LocalPages, Sessions, body_of, error
from tiresias.api.pages import MANAGER
from tiresias.api.passing import parts, pass_on
from tiresias.api.transport import Address

LARGEST_BODY_BYTES = 4 * 1024 * 1024  # as in the manager itself
PRIVATE = (f"{API}tokens",)
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")
SENT_ON = ("accept", "accept-encoding", "content-type", "last-event-id", "idempotency-key")
SENT_BACK = (
    "content-type",
    "content-encoding",
    "vary",
    "x-job",
    "x-run",
    "x-offset",
    "x-over",
)


class Dashboard(LocalPages):
    """The application; `address` is that of the manager."""

    def __init__(self, address: Address, sessions: Sessions | None = None):
        super().__init__(sessions, MANAGER, "tir dashboard")
        self._address = address

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        if request.method not in METHODS:
            return error(404, "not-found", f"there is no route {request.method} {path[:200]}")
        if path.startswith(PRIVATE):
            return error(403, "denied", "tokens are made by `tir token create`, not through the dashboard")
        return await self._passed(request)

    async def _passed(self, request: Request) -> Response:
        body = await body_of(request, LARGEST_BODY_BYTES)
        if body is None:
            return error(413, "invalid", f"a request has at most {LARGEST_BODY_BYTES:,} bytes")
        raw: bytes = request.scope["raw_path"]
        query: bytes = request.scope["query_string"]
        target = (raw + (b"?" + query if query else b"")).decode("latin-1")
        sent = {name: request.headers[name] for name in SENT_ON if name in request.headers}
        passed = await pass_on(self._address, request.method, target, sent, body)
        back = {name: passed.headers[name] for name in SENT_BACK if name in passed.headers}
        return StreamingResponse(parts(passed), passed.status, {**back, "Cache-Control": "no-store"})
