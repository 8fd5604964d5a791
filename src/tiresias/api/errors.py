"""Errors as answers: always `{"error": {"code", "message"}}`.

Rules: a message names the value, where it was given and the next step, but never a value of an environment. A
bug in Tiresias is a 500 that points to the log. If it happened inside the manager during a change, it also
ends the manager: its State can no longer be trusted, and what it has stored can.
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
from tiresias.spec.job import shown
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


class Unauthenticated(Denied):
    """The caller is not known."""


class UnknownToken(Denied):
    """The caller has sent a token that does not exist."""


STATUSES[Unauthenticated] = STATUSES[UnknownToken] = 401


def error(status: int, code: str, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def refused(problem: Refused) -> JSONResponse:
    return error(STATUSES.get(type(problem), 422), problem.code, str(problem))


def handle(app: FastAPI) -> None:
    """Turn every error of the application into an answer."""
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
    return error(422, Invalid.code, "; ".join(_sentence(each) for each in problem.errors()[:5]))


async def _http(request: Request, problem: HTTPException) -> JSONResponse:
    if problem.status_code == 404:
        where = f"{request.method} {request.url.path}"
        return error(404, NotFound.code, f"there is no route {where}; /openapi.json lists them")
    if problem.status_code == 405:
        where = f"{request.method} {request.url.path}"
        text = f"{where}: the route does not have this method; /openapi.json lists those it has"
        answer = error(405, Invalid.code, text)
        answer.headers.update(problem.headers or {})
        return answer
    return error(problem.status_code, Invalid.code, str(problem.detail))


async def _bug(request: Request, problem: Exception) -> JSONResponse:
    if request.method != "GET" and was_inside(problem):
        state_of(request).fatal(problem)
    text = f"this is a bug in Tiresias ({type(problem).__name__}); the manager's log has the details"
    return error(500, "internal", text)


def was_inside(problem: Exception) -> bool:
    """Whether the error happened in the manager itself, and not while an answer was written."""
    frames = traceback.walk_tb(problem.__traceback__)
    return any(frame.f_globals.get("__name__", "").startswith(INSIDE) for frame, _ in frames)


def _sentence(problem: Any) -> str:
    """One error in a request, without values that must not be repeated."""
    place: Sequence[str | int] = [part for part in problem["loc"] if part not in ("body", "one", "several")]
    if place and place[0] in ("query", "path", "header"):
        place = place[1:]
    if "env" in place:  # not even the names: a wrong name may be a secret that was put there by mistake
        place = place[: place.index("env") + 1]
    where = ".".join(str(part) for part in place)
    text = str(problem["msg"]).removeprefix("Value error, ")
    text += shown("env" if "env" in place else where, problem.get("input"))
    return f"{where}: {text}" if where else text
