"""Usage by user or tenant, measured slowdowns, and the history of ended jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from tiresias.api.answers import History, Slowdowns, Usage, answer
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.api.state import PREFIX, Shared
from tiresias.spec.kinds import LARGEST_ID

router = APIRouter(prefix=PREFIX, route_class=Described)
Since = Annotated[
    float | None, Query(ge=0, le=1e11, allow_inf_nan=False, description="only the last `since_s` seconds")
]


@router.get("/usage", response_model=Usage)
async def usage(
    caller: AnyCaller, shared: Shared, by: Literal["user", "tenant"] = "user", since_s: Since = None
) -> Response:
    """GPU time and jobs by user or tenant."""
    return answer(Usage(shared.manager.queries.usage(caller, by, since_s)))


@router.get("/slowdowns", response_model=Slowdowns)
async def slowdowns(caller: AnyCaller, shared: Shared) -> Response:
    """How fast models ran in which shapes: predicted, measured, and the value that the placer uses."""
    return answer(Slowdowns(shared.manager.queries.slowdowns()))


@router.get("/profiles", response_model=dict[str, Any])
async def profiles(caller: AnyCaller, shared: Shared) -> Response:
    """The profiles of models that jobs brought along."""
    return answer(shared.manager.queries.profiles())


@router.get("/history", response_model=History)
async def history(
    caller: AnyCaller,
    shared: Shared,
    cursor: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Ended jobs as rows of a trace."""
    return answer(History(*shared.manager.queries.history(caller, cursor, limit)))
