"""What goes wrong, as answers: always `{"error": {"code", "message"}}`.

Rules: a message names the value, the place and the next step, but never a value of an environment. What is
our own fault is a 500 with a pointer to the log. If it happened inside the manager while something was being
changed, it also ends the manager: what it would do next cannot be trusted, and what it has stored can.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tiresias.api.state import state_of
from tiresias.live.errors import Conflict, Denied, Impossible, Invalid, NotFound, Refused, Unavailable
from tiresias.store import StoreError

INSIDE = ("tiresias.live.", "tiresias.core.", "tiresias.store.")
STATUSES: dict[type[Refused], int] = {
    Invalid: 422,
    NotFound: 404,
    Denied: 403,
    Impossible: 422,
    Conflict: 409,
    Unavailable: 503,
}
SHOWN = 80  # characters of a wrong value


class Unauthenticated(Denied):
    """Nobody knows who asks."""


STATUSES[Unauthenticated] = 401


def error(status: int, code: str, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def refused(problem: Refused) -> JSONResponse:
    return error(STATUSES.get(type(problem), 422), problem.code, str(problem))


def handle(app: FastAPI) -> None:
    """Make every error of the application an answer of ours."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        Refused: _refused,
        StoreError: _store,
        RequestValidationError: _invalid,
        HTTPException: _http,
        Exception: _bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _refused(_: Request, problem: Refused) -> JSONResponse:
    return refused(problem)


async def _store(_: Request, problem: StoreError) -> JSONResponse:
    return error(503, Unavailable.code, str(problem))


async def _invalid(_: Request, problem: RequestValidationError) -> JSONResponse:
    return error(422, Invalid.code, "; ".join(_told(each) for each in problem.errors()[:5]))


async def _http(request: Request, problem: HTTPException) -> JSONResponse:
    if problem.status_code == 404:
        where = f"{request.method} {request.url.path}"
        return error(404, NotFound.code, f"there is nothing at {where}; /openapi.json has what there is")
    if problem.status_code == 405:
        where = f"{request.method} {request.url.path}"
        answer = error(405, Invalid.code, f"{where} is not possible; /openapi.json has what is")
        answer.headers.update(problem.headers or {})
        return answer
    return error(problem.status_code, Invalid.code, str(problem.detail))


async def _bug(request: Request, problem: Exception) -> JSONResponse:
    if request.method != "GET" and was_inside(problem):
        state_of(request).fatal(problem)
    text = f"this is a bug of ours ({type(problem).__name__}); the manager's log has more"
    return error(500, "internal", text)


def was_inside(problem: Exception) -> bool:
    """Whether it went wrong in the manager itself, and not while an answer was written."""
    frames = traceback.walk_tb(problem.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith(INSIDE) for frame, _ in frames)


def _told(problem: Any) -> str:
    """One thing that is wrong with a request, without what must not be repeated."""
    place: Sequence[str | int] = [part for part in problem["loc"] if part not in ("body", "one", "several")]
    if place and place[0] in ("query", "path", "header"):
        place = place[1:]
    if "env" in place:  # not even the names: one that is wrong may be a value in the wrong place
        place = place[: place.index("env") + 1]
    where = ".".join(str(part) for part in place)
    text = str(problem["msg"]).removeprefix("Value error, ")
    value = problem.get("input")
    is_shown = "env" not in place and isinstance(value, str | int | float | bool)
    shown = f" (is {repr(value)[:SHOWN]})" if is_shown else ""
    return f"{where}: {text}{shown}" if where else f"{text}{shown}"
