"""The output of workers: as bytes, or as a stream that continues with the next run until the job ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from tiresias.api import sse
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.api.jobs import Ref
from tiresias.api.logtext import Piece, as_json, read_piece, read_text, size_of
from tiresias.api.state import PREFIX, Shared, State
from tiresias.api.streams import Waiting, stream
from tiresias.api.terminal import Bells
from tiresias.core.model import JobId
from tiresias.live.answers import JobSummary
from tiresias.live.errors import Invalid, NotFound
from tiresias.live.queries import LogFile
from tiresias.live.submission import Caller
from tiresias.spec.kinds import LARGEST_ID

router = APIRouter(prefix=PREFIX, route_class=Described)
LARGEST_PART_BYTES = 8 * 1024 * 1024
LONGEST_WAIT_S = 0.5  # between two reads of a log that grows

Run = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="number of a run; by default the latest")]
Worker = Annotated[int, Query(ge=0, le=1_000_000)]
Offset = Annotated[
    int,
    Query(
        ge=-LARGEST_ID,
        le=LARGEST_ID,
        description="bytes to leave out at the beginning; below 0: bytes before the end at which to begin",
    ),
]
Limit = Annotated[int, Query(ge=1, le=LARGEST_PART_BYTES)]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=100)]


@router.get("/jobs/{ref}/logs", response_class=Response)
async def logs(
    ref: Ref,
    caller: AnyCaller,
    shared: Shared,
    run: Run = None,
    worker: Worker = 0,
    offset: Offset = 0,
    limit: Limit = 1024 * 1024,
    follow: bool = False,
    last_id: LastId = None,
) -> Response:
    """The output of one worker from `offset` on; with `follow` as server-sent events until the job ends."""
    id = shared.manager.queries.find(caller, ref)
    headers = {"X-Job": str(id)}
    if follow:
        if offset < 0:
            raise Invalid(f"offset {offset}: a log that is followed begins at an offset from 0 up")
        if last_id:
            run, offset = _position(last_id)
        run = _begin(shared, caller, id, run, worker)
        return stream(_followed(shared, caller, id, worker, run, offset), headers)
    log = shared.manager.queries.log_file(caller, id, run, worker)
    if offset < 0:
        offset = max(0, size_of(log.path) + offset)
    piece = read_piece(log.path, offset, limit)
    is_over = log.is_over and piece.is_last
    headers |= {"X-Run": str(log.run), "X-Offset": str(piece.offset), "X-Over": str(is_over).lower()}
    return Response(piece.data, headers=headers, media_type="text/plain")


def _position(last_id: str) -> tuple[int, int]:
    run, _, offset = last_id.partition(":")
    are_numbers = run.isdecimal() and offset.isdecimal()
    if not are_numbers or not 1 <= int(run) <= LARGEST_ID or int(offset) > LARGEST_ID:
        raise Invalid(f"Last-Event-ID: {last_id!r} is not RUN:OFFSET; send the last event's id, or none")
    return int(run), int(offset)


def _begin(shared: State, caller: Caller, id: JobId, run: int | None, worker: int) -> int:
    """The run to begin with; for a job that has not run yet it is the first."""
    try:
        return shared.manager.queries.log_file(caller, id, run, worker).run
    except NotFound:
        if run in (None, 1) and not shared.manager.queries.runs(caller, id):
            return 1
        raise


async def _followed(
    shared: State, caller: Caller, id: JobId, worker: int, run: int, offset: int
) -> AsyncIterator[bytes]:
    """All output from here on, in order and once."""
    with closing(Bells()) as bells:
        async for part in _output(shared, caller, id, worker, run, offset, bells):
            yield part


async def _output(
    shared: State, caller: Caller, id: JobId, worker: int, run: int, offset: int, bells: Bells
) -> AsyncIterator[bytes]:
    """Whether a run is over is asked before its log is read: what is not in the log then will never be."""
    waiting = Waiting(shared)
    yield sse.position(f"{run}:{offset}")
    while not waiting.is_closing:
        await waiting.turn()
        seen = waiting.last_seq()
        log = _log_of(shared, caller, id, run, worker)
        piece = Piece(b"", offset) if log is None else read_text(log.path, offset, whole=log.is_over)
        if piece.data:
            offset = piece.offset
            yield sse.event("log", as_json(run, piece), f"{run}:{offset}")
            waiting.has_sent()
        elif log is not None and log.is_over and log.next_run is not None:
            run, offset = log.next_run, 0
            yield sse.position(f"{run}:{offset}")
        elif log is None or log.is_over:
            job = shared.manager.queries.summary(caller, id)
            if job.finished_at is not None:
                yield sse.event("end", _end(job), f"{run}:{offset}")
                return
            yield await waiting.wait(seen, LONGEST_WAIT_S)
        elif (bell := bells.at(log.path.parent)) is not None:
            yield await waiting.wait_for(bell.wait(LONGEST_WAIT_S))
        else:
            yield await waiting.wait(seen, LONGEST_WAIT_S)


def _log_of(shared: State, caller: Caller, id: JobId, run: int, worker: int) -> LogFile | None:
    """The log of a run, or None if the run has not started yet."""
    try:
        return shared.manager.queries.log_file(caller, id, run, worker)
    except NotFound:
        return None


def _end(job: JobSummary) -> bytes:
    return json.dumps({"phase": job.phase, "exit_code": job.exit_code}).encode()
