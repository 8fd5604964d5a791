"""Requests to a manager: sent again where that is safe, read page by page, followed as streams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tiresias.api import sse
from tiresias.api.transport import ApiError, Broken, Reply, Transport, Unreachable

RETRY_WAITS_S = (0.1, 0.3, 1.0, 2.0)  # a manager that is restarted answers again within this time
STREAM_PATIENCE_S = 60.0  # how long a stream tries to reconnect
SHORTEST_WAIT_S = 0.05  # before it reconnects; doubles while that fails
SILENCE_S = 4 * sse.HEARTBEAT_S  # after which a stream must have lost its manager

Value = dict[str, Any]
Ref = int | str  # a job's id or its name


class Requester:
    """Sends the requests of a client, and returns what they are answered with."""

    def __init__(self, transport: Transport):
        self.transport = transport

    def once(self, method: str, target: str, body: Any = None) -> Reply:
        return self.transport.request(method, target, body)

    def again(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A request that may be carried out twice; it is sent again when the connection breaks."""
        was_there = False
        for wait_s in RETRY_WAITS_S:
            try:
                return self.transport.request(method, target, body, headers)
            except Broken:
                was_there = True
            except Unreachable:
                if not was_there:
                    raise
            time.sleep(wait_s)
        return self.transport.request(method, target, body, headers)

    def value(self, method: str, target: str, body: Any = None) -> Value:
        value: Value = self.again(method, target, body).value()
        return value

    def pages(self, path: str, name: str, query: Mapping[str, Any]) -> Iterator[Value]:
        cursor = None
        while True:
            page = self.value("GET", path + query_of({**query, "cursor": cursor}))
            yield from page[name]
            cursor = page["next"]
            if cursor is None:
                return

    def events(self, target: str) -> Iterator[sse.Event]:
        """The events of a stream; it is opened again at the same position whenever it breaks."""
        headers = {"Accept": sse.MEDIA_TYPE}
        was_there = False
        lost_at: float | None = None
        wait_s = SHORTEST_WAIT_S
        while True:
            try:
                with self.transport.stream(target, headers, SILENCE_S) as (received, lines):
                    if "X-Job" in received:  # the next time, the name may be that of another job
                        target = job_path(received["X-Job"], "logs") + "?" + target.partition("?")[2]
                    for event in sse.read(lines):
                        lost_at, wait_s = None, SHORTEST_WAIT_S
                        headers["Last-Event-ID"] = event.id or headers.get("Last-Event-ID", "")
                        if event.name:
                            yield event
                            if event.name == "end":
                                return
            except Unreachable as error:
                if not was_there and not isinstance(error, Broken):
                    raise
            except ApiError as error:
                if error.status != 503:  # the answer of a manager that shuts down
                    raise
            was_there = True
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at > STREAM_PATIENCE_S:
                silent = f"no manager has answered at {self.transport.address} for {STREAM_PATIENCE_S:g} s"
                raise Unreachable(f"{silent}; see `tir doctor`")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, 1.0)


def quoted(text: object) -> str:
    return quote(str(text), safe="")


def job_path(ref: Ref, what: str = "") -> str:
    return f"/api/v1/jobs/{quoted(ref)}" + (f"/{what}" if what else "")


def query_of(values: Mapping[str, Any]) -> str:
    given = {key: value for key, value in values.items() if value is not None}
    return "?" + urlencode(given, doseq=True) if given else ""
