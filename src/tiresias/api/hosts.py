"""Which names of the manager a request may use, and which web pages may send one.

A web page of another site can make a browser send requests to this machine: under a name of its own that it
lets point here (then `Host` is that name), or directly (then `Origin` is that site). Both are refused, on TCP
and on the Unix socket. A request whose length is given in two ways is refused too, because a proxy and the
manager could disagree about where it ends.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tiresias.api.errors import error

READING = ("GET", "HEAD", "OPTIONS")


class KnownHosts:
    """Refuses requests to names that are not those of this manager, and those that other sites send."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()):
        self._app = app
        self._names = {_plain(name) for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        refusal.headers["Connection"] = "close"  # the rest of the request is not read
        await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            text = "the request has both Content-Length and Transfer-Encoding; send one of them"
            return error(400, "invalid", text)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_known(host, scope.get("server")):
            return error(
                421,
                "invalid",
                f"Host: {host[:200]!r} is not a name of this manager; use localhost or the address on which"
                " it listens, or start it with `tir up --allow-host NAME`",
            )
        origin = headers.get(b"origin")
        if origin is None or scope["method"] in READING:
            return None
        shown = origin.decode("latin-1")[:200]
        if _authority(shown) == host.lower():
            return None
        return error(403, "denied", f"Origin: {shown!r} is another site, which may not change anything here")

    def _is_known(self, host: str, server: tuple[str, int | None] | None) -> bool:
        name = _name_of(host)
        if name is None:
            return False
        if name == "localhost" or name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or (server is not None and name == _plain(server[0]))


def _authority(origin: str) -> str | None:
    """The name and the port of the site; None if it has no name."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _name_of(host: str) -> str | None:
    """The name or address in a Host header, without its port; None if there is none."""
    try:
        found = urlsplit(f"//{host}")
        found.port  # noqa: B018  (a ValueError if it is not a number)
    except ValueError:
        return None
    if not found.hostname or found.username is not None or found.path or found.query or found.fragment:
        return None
    return _plain(found.hostname)


def _plain(name: str) -> str:
    """A name as it is compared: in small letters, an address in its shortest form."""
    name = name.strip("[]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
