"""What was used, and what has ended."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from tiresias.api.answers import History, Slowdowns, Usage, answer
from tiresias.api.callers import AnyCaller
from tiresias.api.models import LARGEST_ID
from tiresias.api.state import PREFIX, Shared

router = APIRouter(prefix=PREFIX)
Since = Annotated[
    float | None, Query(ge=0, le=1e11, allow_inf_nan=False, description="only the last so many seconds")
]


@router.get("/usage", response_model=Usage)
async def usage(
    caller: AnyCaller, shared: Shared, by: Literal["user", "tenant"] = "user", since_s: Since = None
) -> Response:
    """GPU time and jobs by user or tenant."""
    return answer(Usage(shared.manager.queries.usage(caller, by, since_s)))


@router.get("/slowdowns", response_model=Slowdowns)
async def slowdowns(caller: AnyCaller, shared: Shared) -> Response:
    """How fast models ran in which shapes: predicted, measured, and what the placer goes by."""
    return answer(Slowdowns(shared.manager.queries.slowdowns()))


@router.get("/history", response_model=History)
async def history(
    caller: AnyCaller,
    shared: Shared,
    cursor: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Jobs that have ended, as rows of a trace."""
    return answer(History(*shared.manager.queries.history(caller, cursor, limit)))
