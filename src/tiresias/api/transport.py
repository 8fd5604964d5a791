"""Plain HTTP to one manager, over its Unix socket or TCP. Standard library only, so that it loads fast.

Rules: connections are kept open between requests, as many as all threads needed at once. A connection that
the manager has closed meanwhile is not used again. Every error is an ApiError; after a `Broken` it is not
known whether the request was carried out.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tiresias.api.home import SOCKET, short_name


class ApiError(Exception):
    """A refusal. `code` is one of those in docs/reference/http-api.md, `status` is that of HTTP."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Unreachable(ApiError):
    """No manager answers."""

    def __init__(self, message: str):
        super().__init__(0, "unreachable", message)


class Broken(Unreachable):
    """The connection broke before the answer was complete."""


@dataclass(slots=True, frozen=True)
class Address:
    """Where a manager is: a Unix socket, or host and port with a token."""

    socket: Path | None
    host: str = ""
    port: int = 0
    is_tls: bool = False
    token: str = ""

    @classmethod
    def of_home(cls, home: Path) -> Address:
        return cls(home / SOCKET)

    @classmethod
    def of_url(cls, url: str, token: str) -> Address:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ApiError(0, "invalid", f"{url!r} is not the address of a manager; write http://HOST:PORT")
        is_tls = parts.scheme == "https"
        return cls(None, parts.hostname, port or (443 if is_tls else 80), is_tls, token)

    def __str__(self) -> str:
        return str(self.socket) if self.socket else f"{self.host}:{self.port}"

    def connect(self, timeout_s: float) -> HTTPConnection:
        if self.socket is not None:
            return _UnixConnection(self.socket, timeout_s)
        kind = HTTPSConnection if self.is_tls else HTTPConnection
        return kind(self.host, self.port, timeout=timeout_s)


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path, timeout_s: float):
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with short_name(self._path) as name:
            self.sock.connect(name)


@dataclass(slots=True, frozen=True)
class Reply:
    status: int
    headers: HTTPMessage
    body: bytes

    def value(self) -> Any:
        return json.loads(self.body)


class Transport:
    def __init__(self, address: Address, timeout_s: float):
        self.address = address
        self.timeout_s = timeout_s
        self._idle: list[HTTPConnection] = []  # the one used last is at the end; pop and append are atomic

    def close(self) -> None:
        """Close the connections that are not in use; the next request opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def request(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """The whole answer to one request."""
        connection = self._connection()
        try:
            response = self._send(connection, method, target, body, headers)
            reply = Reply(response.status, response.headers, response.read())
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | HTTPException):
                raise self._broken(error) from error
            raise
        self._idle.append(connection)
        return checked(reply)

    @contextmanager
    def stream(
        self, target: str, headers: Mapping[str, str], timeout_s: float
    ) -> Iterator[tuple[HTTPMessage, Iterator[bytes]]]:
        """The headers and the lines of a streamed answer, on a connection of its own."""
        connection = self.address.connect(timeout_s)
        try:
            self._open(connection)
            try:
                response = self._send(connection, "GET", target, None, headers)
                if response.status != 200:
                    checked(Reply(response.status, response.headers, response.read()))
            except (OSError, HTTPException) as error:
                raise self._broken(error) from error
            yield response.headers, self._lines(response)
        finally:
            connection.close()

    def _lines(self, response: HTTPResponse) -> Iterator[bytes]:
        while True:
            try:
                line = response.readline()
            except (OSError, HTTPException) as error:
                raise self._broken(error) from error
            if not line:
                return
            yield line

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> HTTPResponse:
        sent = dict(headers or {})
        if self.address.token:
            sent["Authorization"] = f"Bearer {self.address.token}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection.request(method, target, content, sent)
        return connection.getresponse()

    def _connection(self) -> HTTPConnection:
        while self._idle:
            found = self._idle.pop()
            if found.sock is not None and not _is_readable(found.sock):
                return found
            found.close()
        connection = self.address.connect(self.timeout_s)
        self._open(connection)
        return connection

    def _open(self, connection: HTTPConnection) -> None:
        try:
            connection.connect()
        except PermissionError as error:
            connection.close()
            raise ApiError(
                403,
                "denied",
                f"you may not open {self.address} ({error.strerror}); ask the person who started the"
                " manager to start it with --group for a group of yours, or to give you a token",
            ) from error
        except OSError as error:
            connection.close()
            raise Unreachable(
                f"no manager answers at {self.address} ({error.strerror or error}); start one with `tir up`,"
                " or name another home with TIRESIAS_HOME"
            ) from error

    def _broken(self, error: Exception) -> Broken:
        what = "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        return Broken(f"the manager at {self.address} did not finish its answer ({what}); try again")


def _is_readable(connection: socket.socket) -> bool:
    """Whether there is something to read; an idle connection was then closed by the other side."""
    poll = select.poll()  # unlike select.select it takes any number of open files
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def checked(reply: Reply) -> Reply:
    """The reply, unless it is a refusal."""
    if reply.status < 400:
        return reply
    try:
        error = reply.value()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):  # from a proxy, not from a manager
        text = reply.body[:200].decode(errors="replace").strip()
        code, message = "unexpected", f"this is not the answer of a manager (status {reply.status}): {text}"
    raise ApiError(reply.status, code, message)
