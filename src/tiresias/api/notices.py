"""Which notices users get about their jobs, and where."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response

from tiresias.api.answers import answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import AnyCaller
from tiresias.api.models import NotifyBody
from tiresias.api.state import PREFIX, Shared, State

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)


@dataclass(slots=True)
class Notify:
    """The defaults of a user. The secret signs notices; `waiting` counts those that are not delivered yet."""

    url: str
    on: list[str]
    secret: str
    waiting: int
    problem: str  # why the last delivery has failed; empty if it has not


@router.get("/notify", response_model=Notify)
async def notify(caller: AnyCaller, shared: Shared) -> Response:
    """Which notices the caller gets, and where."""
    return _answer(shared, caller.user)


@router.put("/notify", response_model=Notify)
async def set_notify(body: NotifyBody, caller: AnyCaller, shared: Shared) -> Response:
    """Set which notices the caller gets about jobs that say nothing else; an empty URL: none."""
    shared.manager.requests.set_notify(caller, body.url, body.on)
    await shared.service.committed()
    return _answer(shared, caller.user)


@router.post("/notify/test", response_model=Notify)
async def test_notify(caller: AnyCaller, shared: Shared) -> Response:
    """Send a notice that is about nothing to the URL of the caller."""
    shared.manager.requests.test_notify(caller)
    await shared.service.committed()
    return _answer(shared, caller.user)


def _answer(shared: State, user: str) -> Response:
    return answer(Notify(**shared.manager.notices.wish_of(user)))
