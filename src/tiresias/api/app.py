"""The HTTP API as an application: routes, errors, metrics. All decisions are made by the manager.

Rules: every endpoint is a coroutine on the manager's own thread, so nothing here may block it or wait for
anything but the service and the caller. When a change is answered, it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI

from tiresias import __version__
from tiresias.api import (
    errors,
    events,
    jobs,
    logs,
    metrics,
    nodes,
    notices,
    pages,
    past,
    policy,
    storage,
    system,
    terminal,
    tokens,
    usage,
    what_if,
)
from tiresias.api.answers import ErrorReport
from tiresias.api.audit import Audited
from tiresias.api.bounds import Bounded
from tiresias.api.callers import Accounts
from tiresias.api.compression import Compressed
from tiresias.api.described import DescribedApi
from tiresias.api.hosts import KnownHosts
from tiresias.api.state import State
from tiresias.live.service import Service

MODULES = (
    metrics,
    jobs,
    logs,
    terminal,
    events,
    nodes,
    policy,
    usage,
    past,
    what_if,
    storage,
    notices,
    tokens,
    system,
)
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text}
    for code, text in {
        401: "there is no token, or it is not known",
        403: "the caller may not do this",
        404: "there is no such job, node, token or route",
        409: "the request contradicts the present state",
        422: "the request is invalid, or can never be met here",
        503: "not possible at present; nothing was lost",
    }.items()
}


def create_app(
    service: Service, fatal: Callable[[Exception], None] | None = None, names: Sequence[str] = ()
) -> FastAPI:
    """The application of one manager, which has these `names` beside those of loopback.

    `fatal` ends the manager when its State cannot be trusted any more.
    """
    app = DescribedApi(
        ErrorReport,
        title="Tiresias",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.tiresias = State(service, Accounts(), fatal or (lambda _: service.stop()))
    app.state.figures = metrics.Figures(service.manager)
    app.include_router(system.probes)
    app.described += system.probes.routes
    for module in MODULES:
        app.include_router(module.router, responses=ERRORS)
        app.described += module.router.routes
    app.router.routes.extend(pages.routes())
    errors.handle(app)
    app.add_middleware(Compressed)
    app.add_middleware(Bounded)
    app.add_middleware(KnownHosts, names=names)
    app.add_middleware(Audited)
    app.add_middleware(metrics.Measured, figures=app.state.figures)
    return app
