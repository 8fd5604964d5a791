"""The process of `tiresias compare --open` and `tiresias sweep --open`: the result as pages on loopback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tiresias.api.local_pages import API, LocalPages, Sessions, error
from tiresias.api.pages import SIMULATION


class SimulationPages(LocalPages):
    """The application; `shown` is the value of sim/page.py. It answers with that alone."""

    def __init__(self, shown: Mapping[str, Any], command: str, sessions: Sessions | None = None):
        super().__init__(sessions, SIMULATION, command)
        self._body = json.dumps(shown, allow_nan=False).encode()
        self._compressed = gzip.compress(self._body, mtime=0)

    async def answer(self, request: Request) -> Response:
        if request.method != "GET" or request.url.path != f"{API}simulation":
            return error(404, "not-found", f"there is no route {request.method} {request.url.path[:200]}")
        headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self._body, headers=headers, media_type="application/json")
        headers["Content-Encoding"] = "gzip"
        return Response(self._compressed, headers=headers, media_type="application/json")
