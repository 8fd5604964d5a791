"""Passes requests on to a manager, over its Unix socket or TCP, and hands its answers back piece by piece."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import h11

from tiresias.api.home import short_name
from tiresias.api.transport import Address, Unreachable

READ_BYTES = 64 * 1024
CONNECT_S = 10.0

Headers = Iterable[tuple[str, str]]


@dataclass(slots=True)
class Passed:
    """The beginning of an answer, and its body, which must be read to its end or closed."""

    status: int
    headers: dict[str, str]  # by their names in small letters
    body: AsyncIterator[bytes]


class Passage:
    """One connection to the manager, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    def close(self) -> None:
        self._writer.close()

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> Passed:
        request = h11.Request(method=method, target=target, headers=list(headers))
        written = [self._http.send(request)]
        if body:
            written.append(self._http.send(h11.Data(data=body)))
        written.append(self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in written if part))
        await self._writer.drain()
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        assert isinstance(event, h11.Response), event
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
        return Passed(event.status_code, found, self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            while True:
                event = await self._event()
                if not isinstance(event, h11.Data):
                    return
                yield bytes(event.data)
        finally:
            self.close()

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._reader.read(READ_BYTES))


async def pass_on(
    address: Address, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
) -> Passed:
    """Send one request to the manager at this address; Unreachable if it does not answer."""
    host = "localhost" if address.socket is not None else f"{address.host}:{address.port}"
    sent = [("Host", host), ("Connection", "close"), *headers.items()]
    if address.token:
        sent.append(("Authorization", f"Bearer {address.token}"))
    if body:
        sent.append(("Content-Length", str(len(body))))
    try:
        passage = Passage(*await asyncio.wait_for(_open(address), CONNECT_S))
        try:
            return await passage.send(method, target, sent, body)
        except BaseException:
            passage.close()
            raise
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it took too long"
        raise Unreachable(f"no manager answers at {address} ({reason}); start one with `tir up`") from error


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.socket is None:
        secure = ssl.create_default_context() if address.is_tls else None
        return await asyncio.open_connection(address.host, address.port, ssl=secure)
    with short_name(address.socket) as name:
        return await asyncio.open_unix_connection(name)


async def parts(passed: Passed) -> AsyncIterator[bytes]:
    """The body of an answer as it arrives. If the manager ends in between, so does the body."""
    with suppress(OSError, h11.ProtocolError):
        async for part in passed.body:
            yield part
