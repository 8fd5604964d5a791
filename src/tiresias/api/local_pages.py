"""Pages that a process of the user's own serves on loopback.

Rules: nothing is answered but the pages until a one-time code has been exchanged for a session. A code is
good once and for 60 seconds; a session lives as long as this process, is sent in `Authorization`, and is
written nowhere. A request under another name (`Host`), or that another site or another port sends (`Origin`,
`Sec-Fetch-Site`), is refused.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tiresias.api.pages import BY_CODE, HEADERS, files, page
from tiresias.api.transport import ApiError

CODE_S = 60.0
API, SESSION = "/api/v1/", "/session"
OTHER_SITES = ("cross-site", "same-site")  # another port on this machine is the same site


class Sessions:
    """One-time codes and the sessions that they were exchanged for."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._codes: dict[str, float] = {}  # when each code ends
        self._sessions: list[str] = []

    def new_code(self) -> str:
        """A code that is good once, from now on for 60 seconds."""
        self._codes = {code: ends for code, ends in self._codes.items() if ends > self._now()}
        code = secrets.token_urlsafe(32)
        self._codes[code] = self._now() + CODE_S
        return code

    def exchange(self, given: str) -> str | None:
        """A new session for a code that is still good; None for any other."""
        for code, ends in list(self._codes.items()):
            if hmac.compare_digest(code.encode(), given.encode(errors="replace")):
                del self._codes[code]
                if self._now() > ends:
                    return None
                self._sessions.append(secrets.token_urlsafe(32))
                return self._sessions[-1]
        return None

    def knows(self, header: str | None) -> bool:
        """Whether the header `Authorization` names a session of this process."""
        kind, _, given = (header or "").partition(" ")
        if kind.lower() != "bearer" or not given:
            return False
        found = [hmac.compare_digest(each.encode(), given.strip().encode()) for each in self._sessions]
        return any(found)


class LocalPages(ABC):
    """The application; `shown` says which pages, `command` what serves them. `answer` is for subclasses."""

    def __init__(self, sessions: Sessions | None, shown: str, command: str):
        self.sessions = sessions or Sessions()
        self.port = 0  # set when it is known, before the first request
        self._shown, self._again = shown, f"run `{command}` again"
        files(BY_CODE, shown)  # read now, so that no request waits for the disk

    def url(self) -> str:
        """An address with a new one-time code."""
        return f"http://127.0.0.1:{self.port}/#code={self.sessions.new_code()}"

    @abstractmethod
    async def answer(self, request: Request) -> Response:
        """The answer to a request of a session, below /api/v1/."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", scope["type"]
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ApiError as problem:
            answer = error(502, problem.code, problem.message)
        except ClientDisconnect:
            return
        for name, value in HEADERS.items():
            answer.headers[name] = value
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, refusal = request.url.path, self._refusal(request)
        if refusal is not None:
            refusal.headers["Connection"] = "close"  # the rest of the request is not read
            return refusal
        if request.method in ("GET", "HEAD"):
            found = page(path, dict(request.headers.items()), BY_CODE, self._shown)
            if found is not None:
                return found
        if path == SESSION and request.method == "POST":
            return await self._exchange(request)
        if not self.sessions.knows(request.headers.get("authorization")):
            text = f"this page has no session, or the command that served it has ended; {self._again}"
            return error(401, "denied", text)
        if not path.startswith(API):
            return error(404, "not-found", f"there is no route {request.method} {path[:200]}")
        return await self.answer(request)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        names = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        host = headers.get("host", "").lower()
        if host not in names:
            return error(421, "invalid", f"Host: {host[:200]!r} is not a name of this process")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return error(403, "denied", f"Origin: {origin[:200]!r} is another site and may ask nothing here")
        is_page = request.url.path in files(BY_CODE, self._shown)  # a link may lead to a page from anywhere
        if headers.get("sec-fetch-site") in OTHER_SITES and not (is_page and request.method == "GET"):
            return error(403, "denied", "another site may ask nothing here")
        if "content-length" in headers and "transfer-encoding" in headers:
            return error(400, "invalid", "the request has both Content-Length and Transfer-Encoding")
        return None

    async def _exchange(self, request: Request) -> Response:
        body = await body_of(request, 4096)
        try:
            code = str(json.loads(body or b"{}")["code"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return error(422, "invalid", 'send {"code": …} as JSON')
        session = self.sessions.exchange(code)
        if session is None:
            text = f"this address was used already, or is older than 60 seconds; {self._again}"
            return error(403, "denied", text)
        return JSONResponse({"session": session}, headers={"Cache-Control": "no-store"})


async def body_of(request: Request, most_bytes: int) -> bytes | None:
    """The body of a request; None if it has more bytes than it may have."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > most_bytes:
            return None
    return bytes(found)


def error(status: int, code: str, message: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)
