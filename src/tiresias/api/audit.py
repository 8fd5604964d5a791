"""The audit log: one line in the manager's log per request that may change something, with its user.

What is typed in a terminal is not logged, only that somebody attached to it.
Paths are logged in their encoded form and bodies are never logged, so that no caller can forge a line and no
secret is in one.
"""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

USER = "tiresias.user"  # in the scope, once the caller is known
TYPED = ("/terminal/input", "/terminal/window")  # how the paths of such requests end

log = logging.getLogger("tiresias.api.requests")


class Audited:
    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and not _is_typed(scope, message["status"]):
                path = scope["raw_path"].decode("ascii", "replace")
                user = scope.get(USER, "unknown")
                log.info("%s %s by %s: %s", scope["method"], path, user, message["status"])
            await send(message)

        await self._app(scope, receive, noted)


def _is_typed(scope: Scope, status: int) -> bool:
    return status < 400 and scope["path"].endswith(TYPED)
