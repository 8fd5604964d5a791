"""Events: the facts of the journal for people, page by page or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from tiresias.api import sse
from tiresias.api.answers import Events, answer, as_json
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.api.state import PREFIX, Shared, State
from tiresias.api.streams import Waiting, stream, turn
from tiresias.live.answers import EventInfo
from tiresias.live.errors import Invalid
from tiresias.live.submission import Caller
from tiresias.spec.kinds import LARGEST_ID

router = APIRouter(prefix=PREFIX, route_class=Described)
PIECES_KEPT = 32
PIECE = 50  # events that are read from the journal in one turn of the event loop
Since = Annotated[int, Query(ge=0, le=LARGEST_ID, description="the number of the last known event")]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=100)]


@router.get("/events", response_model=Events)
async def events(
    caller: AnyCaller,
    shared: Shared,
    since: Since = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    follow: bool = False,
    last_id: LastId = None,
) -> Response:
    """The events after number `since`; with `follow` as server-sent events, without an end."""
    if follow:
        return stream(_followed(shared, caller, since if not last_id else _number(last_id)))
    found = await _page(shared, caller, since, limit)
    return answer(Events(found, found[-1].seq if len(found) == limit else None))


async def _page(shared: State, caller: Caller, since: int, limit: int) -> list[EventInfo]:
    """At most `limit` events, read in pieces, because a long page takes a second."""
    found: list[EventInfo] = []
    while len(found) < limit:
        await turn(shared)
        wanted = min(PIECE, limit - len(found))
        piece = shared.manager.queries.events(caller, since, wanted)
        found += piece
        if len(piece) < wanted:
            break
        since = piece[-1].seq
    return found


def _number(last_id: str) -> int:
    if not last_id.isdecimal() or int(last_id) > LARGEST_ID:
        raise Invalid(f"Last-Event-ID: {last_id!r} is not the number of an event; send one, or leave it out")
    return int(last_id)


def _piece(shared: State, caller: Caller, since: int, last_seq: int) -> tuple[bytes, int]:
    """The next events as they are sent, and the number of the last. Events are the same for every reader, and
    most readers are at the same place: so each piece is read and written once, however many there are."""
    key = (since, last_seq)
    found = shared.pieces.get(key)
    if found is None:
        piece = shared.manager.queries.events(caller, since, PIECE)
        text = b"".join(sse.event("event", as_json(each), str(each.seq)) for each in piece)
        found = shared.pieces[key] = text, piece[-1].seq if piece else since
        while len(shared.pieces) > PIECES_KEPT:
            del shared.pieces[next(iter(shared.pieces))]
    return found


async def _followed(shared: State, caller: Caller, since: int) -> AsyncIterator[bytes]:
    """Every event after `since`, once and in order."""
    waiting = Waiting(shared)
    yield sse.position(str(since))
    while not waiting.is_closing:
        last_seq = waiting.last_seq()
        if (since, last_seq) not in shared.pieces:
            await waiting.turn()
            last_seq = waiting.last_seq()
        piece, after = _piece(shared, caller, since, last_seq)
        if piece:
            yield piece
            waiting.has_sent()
            since = after
            if since < last_seq:
                continue
        else:
            since = max(since, last_seq)  # the facts between are no longer in the journal
        await shared.pulse.wait(since)
        if heartbeat := waiting.heartbeat():
            yield heartbeat
