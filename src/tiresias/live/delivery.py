"""One delivery of a notice over HTTP: the request, its signature, and what the target answers.

A notice is delivered when its target has answered with a status from 200 to 299. The module is loaded with
the first notice, because most managers have none, and the HTTP client is a large import.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Sequence

from tiresias import __version__
from tiresias.live.courier import Delivery, Parcel
from tiresias.live.notice_target import Network, Target, refusal

TIMEOUT_S = 10.0  # for the connection, for sending, and for the whole beginning of the answer
ANSWER_BYTES = 16 * 1024  # are read at most until the status is known
SIGNATURE = "X-Tiresias-Signature"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b[^\n]*\n")


def signature(secret: str, at: int, body: bytes) -> str:
    """The value of the header by which a receiver knows that the notice is from the manager, and when."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def deliver(parcel: Parcel, allowed: Sequence[Network]) -> Delivery:
    """Send one notice, and wait for the answer."""
    target = parcel.target
    connection = _Connection(target, allowed)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tiresias/{__version__}",
        "X-Tiresias-Notice": parcel.key,
        SIGNATURE: signature(parcel.secret, int(time.time()), parcel.body),
    }
    try:
        connection.request("POST", target.path, parcel.body, headers)
        status = _status(connection.sock)
    except (OSError, http.client.HTTPException) as error:
        return Delivery(parcel.key, f"{target.name}: {error or type(error).__name__}")
    finally:
        connection.close()
    if 200 <= status < 300:
        return Delivery(parcel.key, "")
    hint = " (redirects are not followed)" if 300 <= status < 400 else ""
    return Delivery(parcel.key, f"{target.name} answered {status}{hint}", is_gone=status == 410)


def _status(sock: socket.socket) -> int:
    """The status of the answer, which must come within TIMEOUT_S, however it comes.

    `http.client` waits for so long for each piece: a target that sends one byte at a time would keep a thread
    for ever, and a few of them would keep all.
    """
    ends = time.monotonic() + TIMEOUT_S
    answer = b""
    while len(answer) <= ANSWER_BYTES:
        left_s = ends - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        sock.settimeout(left_s)
        piece = sock.recv(4096)
        answer += piece
        while answer.startswith(b"HTTP/1.1 1") and b"\r\n\r\n" in answer:  # the status is yet to come
            answer = answer.partition(b"\r\n\r\n")[2]
        is_first = not answer.startswith(b"HTTP/1.1 1")
        if found := STATUS.match(answer) if is_first else None:
            return int(found[1])
        if not piece or (is_first and b"\n" in answer):  # what has begun otherwise is no HTTP
            break
    raise http.client.BadStatusLine(repr(answer[:80]))


class _Connection(http.client.HTTPConnection):
    """Connects to an address that was checked; the name is used for TLS and `Host` only."""

    def __init__(self, target: Target, allowed: Sequence[Network]):
        super().__init__(target.host, target.port, timeout=TIMEOUT_S)
        self._target, self._allowed = target, allowed

    def connect(self) -> None:
        found = socket.getaddrinfo(self._target.host, self._target.port, type=socket.SOCK_STREAM)
        error: OSError | None = None
        for family, kind, protocol, _, place in found:
            problem = refusal(ipaddress.ip_address(str(place[0]).partition("%")[0]), self._allowed)
            if problem:
                error = error or PermissionError(problem)
                continue
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(TIMEOUT_S)
                sock.connect(place)
                if self._target.is_tls:
                    context = ssl.create_default_context()
                    sock = context.wrap_socket(sock, server_hostname=self._target.host)
                self.sock = sock
                return
            except OSError as problem_here:
                sock.close()
                error = problem_here
        raise error or OSError(f"{self._target.host} has no address")
