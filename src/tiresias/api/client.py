"""The Python client, for the command line and for scripts.

    from tiresias.api.client import Client

    client = Client()
    [id] = client.submit({"command": ["python", "train.py"], "cwd": "/home/me/project", "gpus": 2})
    for chunk in client.follow_logs(id):
        print(chunk.text, end="")

Answers are plain values, as docs/reference/http-api.md describes them. A refusal is an ApiError. A request
that may safely be sent twice is sent again when the connection breaks; this includes submissions, because
they carry an idempotency key. Streams reconnect by themselves and continue where they were.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from tiresias.api import sse
from tiresias.api.home import default_home
from tiresias.api.parts import PartlySubmitted, parts_of, submitted_in_parts
from tiresias.api.transport import Address, ApiError, Broken, Reply, Transport, Unreachable

__all__ = ["ApiError", "Client", "LogChunk", "PartlySubmitted", "Unreachable"]

RETRY_WAITS_S = (0.1, 0.3, 1.0, 2.0)  # a manager that is restarted answers again within this time
MOST_JOBS = 10_000  # on a page, so that all active jobs are on one if possible
STREAM_PATIENCE_S = 60.0  # how long a stream tries to reconnect
SHORTEST_WAIT_S = 0.05  # before it reconnects; doubles while that fails
TAIL_BYTES = 64 * 1024  # what is read first of the end of a log
SILENCE_S = 4 * sse.HEARTBEAT_S  # after which a stream must have lost its manager

Value = dict[str, Any]
Ref = int | str  # a job's id or its name


@dataclass(slots=True, frozen=True)
class LogChunk:
    """A piece of a run's output; `offset` is the position after it in that run's log, in bytes."""

    run: int
    offset: int
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


class Client:
    """A client of one manager: that of `home`, or the one at `url` with a token."""

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
    ):
        if url is None and home is None:
            url = os.environ.get("TIRESIAS_URL") or None
        if url is not None:
            address = Address.of_url(url, token or os.environ.get("TIRESIAS_TOKEN", ""))
        else:
            address = Address.of_home(default_home() if home is None else Path(home).absolute())
        self._transport = Transport(address, timeout_s)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- jobs ------------------------------------------------------------------------------------------

    def submit(self, jobs: Value | Sequence[Value], key: str | None = None) -> list[int]:
        """Submit one job or several, and return their ids. The same key never submits twice.

        They are submitted all or none if they fit into one request (4 MiB). More are sent in parts, each of
        which is all or none; see PartlySubmitted.
        """
        ids: list[int] = self.submitted(jobs, key)["ids"]
        return ids

    def submitted(self, jobs: Value | Sequence[Value], key: str | None = None) -> Value:
        """The same, with the whole answer: `ids`, the ids of `arrays`, and `warnings`."""
        if isinstance(jobs, Mapping):
            parts_of([jobs])  # refuses a job that is larger than a request
            return self._submit(jobs, key or new_key())
        return submitted_in_parts(self._submit, jobs, key or new_key())

    def _submit(self, body: Mapping[str, Any], key: str) -> Value:
        answer: Value = self._again("POST", "/api/v1/jobs", body, {"Idempotency-Key": key}).value()
        return answer

    def again(self, ref: Ref, key: str | None = None, **changes: Any) -> int:
        """Submit a job once more, as it was submitted except for the changes, and return the new id."""
        headers = {"Idempotency-Key": key or new_key()}
        ids: list[int] = self._again("POST", _job(ref, "again"), changes, headers).value()["ids"]
        return ids[0]

    def dry_run(self, job: Value) -> Value:
        """Where the job would run now, and which jobs it would displace."""
        return self._value("POST", "/api/v1/jobs/dry-run", job)

    def jobs(
        self,
        all: bool = False,
        user: str | None = None,
        phase: str | None = None,
        refs: Sequence[Ref] = (),
    ) -> Iterator[Value]:
        """Active jobs in the order in which they are served; with `all` also ended jobs, the latest first.

        With `refs`, only the jobs that these ids, names, arrays and patterns mean.
        """
        query: dict[str, Any] = {"all": str(all).lower(), "user": user, "phase": phase, "job": list(refs)}
        query["limit"] = None if all else str(MOST_JOBS)  # a large page of ended jobs would block the manager
        yield from self._pages("/api/v1/jobs", "jobs", query)

    def find(self, ref: Ref, *, active: bool = False) -> list[int]:
        """The jobs that an id, a name, the id of an array or a pattern means; `active` leaves out ended ones
        of an array or pattern."""
        query = _query({"active": "true"} if active else {})
        ids: list[int] = self._value("GET", _job(ref, "ids") + query)["ids"]
        return ids

    def job(self, ref: Ref) -> Value:
        return self._value("GET", _job(ref))

    def why(self, ref: Ref) -> Value:
        """Why the job waits, runs or has ended: the reason, its evidence, the next step."""
        return self._value("GET", _job(ref, "why"))

    def runs(self, ref: Ref) -> list[Value]:
        runs: list[Value] = self._value("GET", _job(ref, "runs"))["runs"]
        return runs

    def job_events(self, ref: Ref) -> list[Value]:
        """The events of one job."""
        events: list[Value] = self._value("GET", _job(ref, "events"))["events"]
        return events

    def cancel(self, ref: Ref, *, now: bool = False) -> Value:
        """Cancel a job; with `now` its run is killed at once, without its grace time."""
        return self._value("POST", _job(ref, "cancel") + ("?now=true" if now else ""))

    def hold(self, ref: Ref) -> Value:
        return self._value("POST", _job(ref, "hold"))

    def release(self, ref: Ref) -> Value:
        return self._value("POST", _job(ref, "release"))

    def requeue(self, ref: Ref) -> Value:
        return self._once("POST", _job(ref, "requeue")).value()  # type: ignore[no-any-return]

    def change(self, ref: Ref, **changes: Any) -> Value:
        """Change options of a job, such as priority, time_limit_s or retries."""
        return self._value("PATCH", _job(ref), changes)

    # --- output and events -----------------------------------------------------------------------------

    def logs(self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0) -> bytes:
        """The output so far of one worker of a run, by default the latest."""
        return b"".join(self.log_pieces(ref, run, worker, offset))

    def log_pieces(
        self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0
    ) -> Iterator[bytes]:
        """The same in pieces, as they arrive."""
        while True:
            query = _query({"run": run, "worker": worker, "offset": offset})
            reply = self._again("GET", _job(ref, "logs") + query)
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
        query = _query({"run": run, "worker": worker, "offset": offset, "limit": limit})
        return self._again("GET", _job(ref, "logs") + query)

    def follow_logs(
        self, ref: Ref, run: int | None = None, worker: int = 0, offset: int = 0
    ) -> Iterator[LogChunk]:
        """The output of a run from `offset` on and of the runs after it, until the job has ended."""
        target = _job(ref, "logs") + _query(
            {"run": run, "worker": worker, "offset": offset or None, "follow": "true"}
        )
        for event in self._events(target):
            if event.name == "end":
                return
            piece = event.value()
            data = base64.b64decode(piece["base64"]) if "base64" in piece else piece["text"].encode()
            yield LogChunk(piece["run"], piece["offset"], data)

    def events(self, since: int = 0, follow: bool = False) -> Iterator[Value]:
        """The events after number `since`; with `follow` also those that are still to come."""
        if follow:
            target = "/api/v1/events" + _query({"since": since, "follow": "true"})
            yield from (event.value() for event in self._events(target))
            return
        while True:
            page = self._value("GET", "/api/v1/events" + _query({"since": since}))
            yield from page["events"]
            if page["next"] is None:
                return
            since = page["next"]

    # --- terminals -------------------------------------------------------------------------------------

    def attach(self, ref: Ref, rows: int, columns: int) -> Value:
        """Attach to the terminal of a job: its `session`, and where its output begins in the log."""
        return self._value("POST", _job(ref, "terminal"), {"rows": rows, "columns": columns})

    def type_in(self, ref: Ref, session: str, number: int, data: bytes) -> None:
        """Type in the terminal. The same number of a session is never typed twice."""
        typed = base64.b64encode(data).decode()
        self._again(
            "POST",
            _job(ref, "terminal/input"),
            {"session": session, "number": number, "input": typed},
        )

    def resize(self, ref: Ref, rows: int, columns: int) -> None:
        """The window has another size."""
        self._again("PUT", _job(ref, "terminal/window"), {"rows": rows, "columns": columns})

    # --- the cluster -----------------------------------------------------------------------------------

    def status(self) -> Value:
        return self._value("GET", "/api/v1/status")

    def whoami(self) -> Value:
        """The user and the role under which the manager knows this client."""
        return self._value("GET", "/api/v1/whoami")

    def nodes(self) -> list[Value]:
        nodes: list[Value] = self._value("GET", "/api/v1/nodes")["nodes"]
        return nodes

    def drain(self, what: str, reason: str = "", deadline_s: float | None = None) -> Value:
        """Take a node, or one GPU as `node:index`, out of service; runs on it continue."""
        asked = {"reason": reason, "deadline_s": deadline_s}
        return self._value("POST", f"/api/v1/nodes/{_quoted(what)}/drain", asked)

    def undrain(self, what: str) -> Value:
        return self._value("POST", f"/api/v1/nodes/{_quoted(what)}/undrain")

    def policy(self) -> Value:
        return self._value("GET", "/api/v1/policy")

    def set_policy(
        self,
        policy: str,
        options: Mapping[str, str] | None = None,
        placer: str | None = None,
        placer_options: Mapping[str, str] | None = None,
    ) -> Value:
        body = {"policy": policy, "options": dict(options or {}), "placer": placer}
        if placer_options is not None:
            body["placer_options"] = dict(placer_options)
        return self._value("PUT", "/api/v1/policy", body)

    def limits(self) -> Value:
        """The limits by user; `*` stands for all users. A user without a limit of its own has that of `*`."""
        limits: Value = self._value("GET", "/api/v1/limits")["limits"]
        return limits

    def set_limits(
        self,
        user: str,
        max_running_gpus: int | str | None = None,
        max_active_jobs: int | str | None = None,
    ) -> Value:
        """Set the limits of a user: a number, `none` for no limit, or None for that of `*`."""
        body = {"max_running_gpus": max_running_gpus, "max_active_jobs": max_active_jobs}
        return self._value("PUT", f"/api/v1/limits/{_quoted(user)}", body)

    def shares(self) -> Value:
        """The weights of tenants that allocators such as two-level go by; one that is not named has 1."""
        shares: Value = self._value("GET", "/api/v1/shares")["shares"]
        return shares

    def set_shares(self, shares: Mapping[str, float]) -> Value:
        """Replace the weights of all tenants; empty: all have equal shares."""
        return self._value("PUT", "/api/v1/shares", {"shares": dict(shares)})

    def usage(self, by: str = "user", since_s: float | None = None) -> list[Value]:
        query = _query({"by": by, "since_s": since_s})
        rows: list[Value] = self._value("GET", "/api/v1/usage" + query)["rows"]
        return rows

    def slowdowns(self) -> list[Value]:
        """How fast models ran in which shapes of allocations, as predicted and as measured."""
        rows: list[Value] = self._value("GET", "/api/v1/slowdowns")["rows"]
        return rows

    def profiles(self) -> Value:
        """The profiles of models that jobs brought along, by name."""
        return self._value("GET", "/api/v1/profiles")

    def history(self) -> Iterator[Value]:
        """One row per ended job, for a trace."""
        yield from self._pages("/api/v1/history", "rows", {"limit": 250})  # more would block the manager

    def notify(self) -> Value:
        """What this user is told about jobs, and where; with the secret that signs notices."""
        return self._value("GET", "/api/v1/notify")

    def set_notify(self, url: str, on: Sequence[str] = ()) -> Value:
        """Set it for jobs that say nothing else; an empty URL: nothing is told."""
        return self._value("PUT", "/api/v1/notify", {"url": url, "on": list(on)})

    def test_notify(self) -> Value:
        """Have a notice sent that is about nothing."""
        value: Value = self._once("POST", "/api/v1/notify/test").value()
        return value

    def prune(
        self,
        older_than_s: float,
        *,
        checkpoints: bool = False,
        all_users: bool = False,
        dry_run: bool = False,
    ) -> Value:
        """Remove the output of jobs that ended so long ago or earlier; how many jobs and bytes that were."""
        body = {
            "older_than_s": older_than_s,
            "checkpoints": checkpoints,
            "all_users": all_users,
            "dry_run": dry_run,
        }
        return self._value("POST", "/api/v1/prune", body)

    def tokens(self) -> list[Value]:
        tokens: list[Value] = self._value("GET", "/api/v1/tokens")["tokens"]
        return tokens

    def create_token(self, name: str, user: str, role: str = "user") -> str:
        """Create a token. Only this answer contains it."""
        body = {"name": name, "user": user, "role": role}
        token: str = self._once("POST", "/api/v1/tokens", body).value()["token"]
        return token

    def revoke_token(self, name: str) -> None:
        self._once("DELETE", f"/api/v1/tokens/{_quoted(name)}")

    def shutdown(self, stop_jobs: bool = False) -> None:
        """End the manager; its runs continue unless `stop_jobs` is set."""
        self._once("POST", "/api/v1/shutdown", {"stop_jobs": stop_jobs})

    # --- how -------------------------------------------------------------------------------------------

    def _once(self, method: str, target: str, body: Any = None) -> Reply:
        return self._transport.request(method, target, body)

    def _again(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A request that may be carried out twice; it is sent again when the connection breaks."""
        was_there = False
        for wait_s in RETRY_WAITS_S:
            try:
                return self._transport.request(method, target, body, headers)
            except Broken:
                was_there = True
            except Unreachable:
                if not was_there:
                    raise
            time.sleep(wait_s)
        return self._transport.request(method, target, body, headers)

    def _value(self, method: str, target: str, body: Any = None) -> Value:
        value: Value = self._again(method, target, body).value()
        return value

    def _pages(self, path: str, name: str, query: Mapping[str, Any]) -> Iterator[Value]:
        cursor = None
        while True:
            page = self._value("GET", path + _query({**query, "cursor": cursor}))
            yield from page[name]
            cursor = page["next"]
            if cursor is None:
                return

    def _events(self, target: str) -> Iterator[sse.Event]:
        """The events of a stream; it is opened again at the same position whenever it breaks."""
        headers = {"Accept": sse.MEDIA_TYPE}
        was_there = False
        lost_at: float | None = None
        wait_s = SHORTEST_WAIT_S
        while True:
            try:
                with self._transport.stream(target, headers, SILENCE_S) as (received, lines):
                    if "X-Job" in received:  # the next time, the name may be that of another job
                        target = _job(received["X-Job"], "logs") + "?" + target.partition("?")[2]
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
                silent = f"no manager has answered at {self._transport.address} for {STREAM_PATIENCE_S:g} s"
                raise Unreachable(f"{silent}; see `tir doctor`")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, 1.0)


def new_key() -> str:
    """An idempotency key that nobody else uses."""
    return os.urandom(16).hex()


def _quoted(text: object) -> str:
    return quote(str(text), safe="")


def _job(ref: Ref, what: str = "") -> str:
    return f"/api/v1/jobs/{_quoted(ref)}" + (f"/{what}" if what else "")


def _query(values: Mapping[str, Any]) -> str:
    given = {key: value for key, value in values.items() if value is not None}
    return "?" + urlencode(given, doseq=True) if given else ""
