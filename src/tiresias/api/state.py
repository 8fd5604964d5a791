"""The state that all endpoints share: the service, and what belongs to the API alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from tiresias.api.failures import FailedTokens
from tiresias.api.kept import Kept
from tiresias.api.pulse import Pulse
from tiresias.api.user_turns import UserTurns
from tiresias.api.what_ifs import WhatIfs

if TYPE_CHECKING:
    from tiresias.api.callers import Accounts
    from tiresias.live.manager import Manager
    from tiresias.live.service import Service

PREFIX = "/api/v1"


@dataclass(slots=True)
class State:
    service: Service
    accounts: Accounts
    fatal: Callable[[Exception], None]  # the manager cannot be trusted any more
    closing: asyncio.Event = field(default_factory=asyncio.Event)  # streams end when it is set
    closes: asyncio.Future[Any] | None = None  # done when `closing` is set
    failed_tokens: FailedTokens = field(default_factory=FailedTokens)
    large_bodies: asyncio.Lock = field(default_factory=asyncio.Lock)  # they are parsed one at a time
    pruning: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)  # passes from stream to stream
    pieces: dict[tuple[int, int], tuple[bytes, int]] = field(default_factory=dict)  # of the stream of events
    reading_past: asyncio.Lock = field(default_factory=asyncio.Lock)  # windows are read one at a time
    past: Kept = field(default_factory=Kept)
    curves: UserTurns = field(default_factory=UserTurns)  # reports are read
    estimates: UserTurns = field(default_factory=UserTurns)
    what_ifs: WhatIfs = field(default_factory=WhatIfs)
    pulse: Pulse = field(init=False)

    def __post_init__(self) -> None:
        self.pulse = Pulse(self.service, self.closing)

    async def settled_seq(self) -> int:
        """The number of the last event, once everything that the State contains is in the journal.

        What is read before the next `await` is valid at exactly this event.
        """
        while self.manager.journal.has_uncommitted:
            await self.service.committed()
        return self.manager.store.last_seq

    @property
    def manager(self) -> Manager:
        return self.service.manager


def state_of(request: Request) -> State:
    state: State = request.app.state.tiresias
    return state


async def _get(request: Request) -> State:
    return state_of(request)


Shared = Annotated[State, Depends(_get)]
