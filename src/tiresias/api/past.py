"""A window of the past: use, queue and waits over time, and the runs on a timeline.

The journal is read in another thread, one window at a time, and the last answers are kept for a moment: so
the manager decides as fast as before, however many pages ask.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from tiresias.api.answers import answer
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.api.state import PREFIX, Shared, State
from tiresias.live import past_window
from tiresias.live.past_window import LONGEST_S, Question, Timeline
from tiresias.live.use import Use

router = APIRouter(prefix=PREFIX, route_class=Described)
MOST_STEPS, MOST_RUNS = 400, 5000
Since = Annotated[
    float, Query(ge=1, le=LONGEST_S, allow_inf_nan=False, description="the last `since_s` seconds")
]


def _question(shared: State, since_s: float) -> Question:
    manager = shared.manager
    nodes = tuple(manager.state.ledger.nodes)
    return Question(manager.store.path, manager.now(), nodes, since_s)


async def _once(shared: State, key: tuple[Any, ...], made: Callable[[], Any]) -> Response:
    found = shared.past.find(key)
    if found is None:
        async with shared.reading_past:
            found = shared.past.find(key)  # another caller may just have asked the same
            if found is None:
                found = bytes((await to_thread(lambda: answer(made()))).body)
                shared.past.keep(key, found)
    return Response(found, media_type="application/json")


@router.get("/use", response_model=Use)
async def use(
    caller: AnyCaller,
    shared: Shared,
    since_s: Since = 86400.0,
    by: Literal["user", "tenant"] = "user",
    steps: Annotated[int, Query(ge=1, le=MOST_STEPS, description="equal parts of the window")] = 96,
) -> Response:
    """GPUs in use, jobs that wait, and waits until the first start over a window, by user or tenant."""
    await shared.settled_seq()
    question = _question(shared, since_s)
    return await _once(shared, ("use", since_s, by, steps), lambda: past_window.use(question, steps, by))


@router.get("/timeline", response_model=Timeline)
async def timeline(
    caller: AnyCaller,
    shared: Shared,
    since_s: Since = 3600.0,
    node: Annotated[
        list[str] | None, Query(description="only runs on this node; may be repeated", max_length=100)
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 1000,
) -> Response:
    """The runs that held slots in a window of time, the latest first."""
    await shared.settled_seq()
    question, nodes = _question(shared, since_s), tuple(node or ())
    past_window.check_nodes(question, nodes)
    key = ("timeline", since_s, nodes, limit)
    return await _once(shared, key, lambda: past_window.timeline(question, nodes, limit))
