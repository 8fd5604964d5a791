"""The pages of the dashboard: the files in `web`, and the headers that keep them from doing anything else.

Rules: a page loads nothing that does not come from here, sends nothing to any other site, runs no text as a
program, and is shown in no frame. There is no cookie: a cookie is sent to every port of a host, and on a
shared machine another port may belong to another user. The same files are served by `tir dashboard` and by a
manager that listens on TCP; they differ in how a person signs in.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

WEB = Path(__file__).parent / "web"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
BY_TOKEN, BY_CODE = "token", "code"
SIGN_IN = b'content="code"'  # in index.html: how a person signs in
ROOT = "/"


@dataclass(slots=True, frozen=True)
class File:
    """One file as it is served."""

    kind: str
    body: bytes
    compressed: bytes
    tag: str


def _file(kind: str, body: bytes) -> File:
    digest = hashlib.sha256(body).hexdigest()[:24]
    return File(kind, body, gzip.compress(body, 9, mtime=0), f'"{digest}"')


@cache
def files(sign_in: str = BY_CODE) -> dict[str, File]:
    """The files of the pages by the paths at which they are served."""
    found = {
        f"/web/{path.relative_to(WEB).as_posix()}": _file(KINDS[path.suffix], path.read_bytes())
        for path in sorted(WEB.rglob("*"))
        if path.suffix in KINDS and path.name != "index.html"
    }
    index = (WEB / "index.html").read_bytes()
    assert index.count(SIGN_IN) == 1, "index.html says once how a person signs in"
    return {ROOT: _file("text/html", index.replace(SIGN_IN, b'content="%s"' % sign_in.encode())), **found}


def page(path: str, headers: dict[str, str], sign_in: str) -> Response | None:
    """The answer to a GET of this path; None if there is no such file. Headers are named in small letters."""
    found = files(sign_in).get(path)
    if found is None:
        return None
    sent = {**HEADERS, "ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=sent)
    body = found.body
    if "gzip" in headers.get("accept-encoding", ""):
        sent["Content-Encoding"] = "gzip"
        body = found.compressed
    return Response(body, headers=sent, media_type=found.kind)


async def _served(request: Request) -> Response:
    found = page(request.url.path, dict(request.headers.items()), BY_TOKEN)
    assert found is not None, request.url.path
    return found


def routes() -> list[Route]:
    """The pages as a manager serves them, to people who have a token."""
    return [Route(path, _served, include_in_schema=False) for path in files(BY_TOKEN)]
