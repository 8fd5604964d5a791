"""The part of the Python client that reads the output of jobs, and events."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

from tiresias.api.requester import Ref, Requester, Value, job_path, query_of
from tiresias.api.transport import Reply

TAIL_BYTES = 64 * 1024  # what is read first of the end of a log


@dataclass(slots=True, frozen=True)
class LogChunk:
    """A piece of a run's output; `offset` is the position after it in that run's log, in bytes."""

    run: int
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


class Output:
    """Reads logs and events, at once or as they come."""

    def __init__(self, requester: Requester):
        self._requester = requester

    def logs(self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0) -> bytes:
        """The output so far of one worker of a run, by default the latest."""
        return b"".join(self.log_pieces(ref, run, worker, offset))

    def log_pieces(
        self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0
    ) -> Iterator[bytes]:
        """The same in pieces, as they arrive."""
        while True:
            query = query_of({"run": run, "worker": worker, "offset": offset})
            reply = self._requester.again("GET", job_path(ref, "logs") + query)
            if not reply.body:
                return
            yield reply.body
            ref, run = int(reply.headers["X-Job"]), int(reply.headers["X-Run"])
            offset = int(reply.headers["X-Offset"])

    def last_lines(
        self, ref: Ref, lines: int, run: int | None = None, worker: int = 0
    ) -> tuple[list[bytes], LogChunk]:
        """The last lines of a run's output, read backwards from its end, and an empty chunk at that end."""
        first = self._piece(ref, run, worker, -TAIL_BYTES, TAIL_BYTES)
        id, number = int(first.headers["X-Job"]), int(first.headers["X-Run"])
        end = int(first.headers["X-Offset"])
        parts, start = [first.body], end - len(first.body)
        while start > 0 and sum(part.count(b"\n") for part in parts) <= lines:
            size = min(start, TAIL_BYTES * 2 ** min(len(parts), 4))
            parts.insert(0, self._piece(id, number, worker, start - size, size).body)
            start -= size
        whole = b"".join(parts).splitlines(keepends=True)
        return (whole[-lines:] if lines else []), LogChunk(number, end, b"")

    def _piece(self, ref: Ref, run: int | None, worker: int, offset: int, limit: int) -> Reply:
        query = query_of({"run": run, "worker": worker, "offset": offset, "limit": limit})
        return self._requester.again("GET", job_path(ref, "logs") + query)

    def follow_logs(
        self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0
    ) -> Iterator[LogChunk]:
        """The output of a run from `offset` on and of the runs after it, until the job has ended."""
        target = job_path(ref, "logs") + query_of(
            {"run": run, "worker": worker, "offset": offset or None, "follow": "true"}
        )
        for event in self._requester.events(target):
            if event.name == "end":
                return
            piece = event.value()
            data = base64.b64decode(piece["base64"]) if "base64" in piece else piece["text"].encode()
            yield LogChunk(piece["run"], piece["offset"], data)

    def events(self, since: int = 0, follow: bool = False) -> Iterator[Value]:
        """The events after number `since`; with `follow` also those that are still to come."""
        if follow:
            target = "/api/v1/events" + query_of({"since": since, "follow": "true"})
            yield from (event.value() for event in self._requester.events(target))
            return
        while True:
            page = self._requester.value("GET", "/api/v1/events" + query_of({"since": since}))
            yield from page["events"]
            if page["next"] is None:
                return
            since = page["next"]

    def attach(self, ref: Ref, rows: int, columns: int) -> Value:
        """Attach to the terminal of a job: its `session`, and where its output begins in the log."""
        return self._requester.value("POST", job_path(ref, "terminal"), {"rows": rows, "columns": columns})

    def type_in(self, ref: Ref, session: str, number: int, data: bytes) -> None:
        """Type in the terminal. The same number of a session is never typed twice."""
        typed = base64.b64encode(data).decode()
        self._requester.again(
            "POST",
            job_path(ref, "terminal/input"),
            {"session": session, "number": number, "input": typed},
        )

    def resize(self, ref: Ref, rows: int, columns: int) -> None:
        """The window has another size."""
        self._requester.again("PUT", job_path(ref, "terminal/window"), {"rows": rows, "columns": columns})
