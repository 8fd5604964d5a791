"""Who changed what, in the manager's log: a line for each request that may change something.

Paths are logged as they were sent, encoded, and bodies never, so that nobody can write lines of their own and
no secret is in any.
"""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

USER = "tiresias.user"  # in the scope, once the caller is known

log = logging.getLogger("tiresias.api.requests")


class Audited:
    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode("ascii", "replace")
                user = scope.get(USER, "unknown")
                log.info("%s %s by %s: %s", scope["method"], path, user, message["status"])
            await send(message)

        await self._app(scope, receive, noted)
