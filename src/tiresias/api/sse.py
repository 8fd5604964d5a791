"""Server-sent events, written and read. Standard library only: the client uses it too.

The id of an event is the position in the stream after it. A reader that reconnects with that id as
`Last-Event-ID` continues exactly there. An event with an id and no data only sets that position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0  # of silence; then each side learns whether the other is still there
HEARTBEAT = b": still here\n\n"


@dataclass(slots=True, frozen=True)
class Event:
    """One event as it was received; `data` is JSON."""

    id: str
    name: str
    data: str

    def value(self) -> Any:
        return json.loads(self.data)


def position(id: str) -> bytes:
    """An event that sets the reader's position and carries no data."""
    return f"id: {id}\n\n".encode()


def event(name: str, json_text: bytes, id: str | None = None) -> bytes:
    """An event; `json_text` has no line breaks, as JSON written without indentation has none."""
    head = b"" if id is None else f"id: {id}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode(), json_text)


def read(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events in a stream of lines, as far as they are complete; one without data has an empty name."""
    id, name, has_id = "", "message", False
    data: list[str] = []
    for raw in lines:
        line = raw.rstrip(b"\r\n").decode()
        if not raw.endswith(b"\n"):
            return  # the connection ended within a line
        if not line:
            if data:
                yield Event(id, name, "\n".join(data))
            elif has_id:
                yield Event(id, "", "")
            name, data, has_id = "message", [], False
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            id, has_id = value, True
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
