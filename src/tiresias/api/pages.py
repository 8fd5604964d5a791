"""The pages of the dashboard: the files in `web`, and the headers that keep them from doing anything else.

Rules: a page loads nothing that does not come from here, sends nothing to any other site, runs no text as a
program, and is shown in no frame. There is no cookie: a cookie is sent to every port of a host, and on a
shared machine another port may belong to another user. The same files are served by `tir dashboard` and by a
manager that listens on TCP; they differ in how a person signs in.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiresias.api import shortened

WEB = Path(__file__).parent / "web"
VENDOR = WEB / "vendor"
GZIP = 16 + zlib.MAX_WBITS  # the format, with the largest window
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
MANAGER, SIMULATION = "main", "simulation"  # which pages, by the script that shows them
SIGN_IN = b'content="code"'  # in index.html: how a person signs in
MAIN = b"/web/main.js"
OWN = {MANAGER: {"main.js", "now.js", "queue.js", "job.js", "past.js"}, SIMULATION: {"simulation.js"}}
"""The scripts that only some pages need; all others are shared."""
ROOT = "/"


@dataclass(slots=True, frozen=True)
class File:
    """One file as it is served."""

    kind: str
    body: bytes
    compressed: bytes
    tag: str


def _read(path: Path) -> bytes:
    """A file of ours as it is served; libraries are served unchanged."""
    if path.suffix not in SHORTENED or VENDOR in path.parents:
        return path.read_bytes()
    return SHORTENED[path.suffix](path.read_text("utf-8")).encode()


SHORTENED = {".js": shortened.script, ".css": shortened.style}


def _compressed(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, GZIP, 9)
    return packer.compress(body) + packer.flush()


def _file(kind: str, body: bytes) -> File:
    digest = hashlib.sha256(body).hexdigest()[:24]
    return File(kind, body, _compressed(body), f'"{digest}"')


@cache
def _places(shown: str) -> dict[str, Path]:
    """Where the files of the pages are, by the paths at which they are served."""
    others = {name for kind, names in OWN.items() if kind != shown for name in names}
    found = {
        f"/web/{path.relative_to(WEB).as_posix()}": path
        for path in sorted(WEB.rglob("*"))
        if path.suffix in KINDS and path.name not in (*others, "index.html")
    }
    return {ROOT: WEB / "index.html", **found}


@cache
def _served_file(path: str, sign_in: str, shown: str) -> File:
    place = _places(shown)[path]
    body = _read(place)
    if path == ROOT:
        assert body.count(SIGN_IN) == 1, "index.html says once how a person signs in"
        body = body.replace(SIGN_IN, b'content="%s"' % sign_in.encode())
        body = body.replace(MAIN, b"/web/%s.js" % shown.encode())
    return _file(KINDS[place.suffix], body)


@cache
def files(sign_in: str = BY_CODE, shown: str = MANAGER) -> dict[str, File]:
    """The files of the pages by the paths at which they are served."""
    return {path: _served_file(path, sign_in, shown) for path in _places(shown)}


def page(path: str, headers: dict[str, str], sign_in: str, shown: str = MANAGER) -> Response | None:
    """The answer to a GET of this path; None if there is no such file. Headers are named in small letters."""
    if path not in _places(shown):
        return None
    found = _served_file(path, sign_in, shown)
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
    """The pages as a manager serves them, to people who have a token.

    Each file is read and compressed when it is asked for first: all of them would take a tenth of a start.
    """
    return [Route(path, _served, include_in_schema=False) for path in _places(MANAGER)]
