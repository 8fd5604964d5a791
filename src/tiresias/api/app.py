"""The HTTP API as an application: routes, errors, figures. It decides nothing; it asks the manager.

Rules: every endpoint is a coroutine on the manager's own thread, so nothing here may wait for anything but
the service and the caller. What an endpoint answers after a change is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from tiresias import __version__
from tiresias.api import errors, events, jobs, logs, metrics, nodes, policy, system, tokens, usage
from tiresias.api.answers import ErrorReport
from tiresias.api.audit import Audited
from tiresias.api.bounds import Bounded
from tiresias.api.callers import Accounts
from tiresias.api.state import State
from tiresias.live.service import Service

MODULES = (metrics, jobs, logs, events, nodes, policy, usage, tokens, system)
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorReport, "description": text}
    for code, text in {
        401: "no token, or one that is not known",
        403: "the caller may not do this",
        404: "there is no such thing",
        409: "it contradicts what is",
        422: "the request makes no sense, or can never be met here",
        503: "not now; nothing was lost",
    }.items()
}


def create_app(service: Service, fatal: Callable[[Exception], None] | None = None) -> FastAPI:
    """The application over one manager; `fatal` ends it when its State cannot be trusted any more."""
    app = FastAPI(
        title="Tiresias", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.tiresias = State(service, Accounts(), fatal or (lambda _: service.stop()))
    app.state.figures = metrics.Figures(service.manager)
    app.include_router(system.probes)
    for module in MODULES:
        app.include_router(module.router, responses=ERRORS)
    errors.handle(app)
    app.add_middleware(Bounded)
    app.add_middleware(Audited)
    app.add_middleware(metrics.Measured, figures=app.state.figures)
    return app
