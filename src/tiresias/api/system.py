"""The manager itself: is it there, is it well, what does it do, and its end."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tiresias import __version__
from tiresias.api.answers import Health, Version, Who, answer
from tiresias.api.callers import ADMIN, Admin, AnyCaller
from tiresias.api.errors import error
from tiresias.api.models import ShutdownBody
from tiresias.api.state import PREFIX, Shared
from tiresias.live.errors import Unavailable
from tiresias.live.reports import StatusReport

probes = APIRouter()
router = APIRouter(prefix=PREFIX)


@probes.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """It answers."""
    return answer(Health("ok"))


@probes.get("/readyz", response_model=Health)
async def readyz(shared: Shared) -> Response:
    """It takes jobs; otherwise 503 with what keeps it from doing so."""
    if shared.manager.problem:
        return error(503, Unavailable.code, shared.manager.problem)
    return answer(Health("ready"))


@probes.get("/version", response_model=Version)
async def version() -> Response:
    return answer(Version(__version__, "v1"))


@router.get("/status", response_model=StatusReport)
async def status(caller: AnyCaller, shared: Shared) -> Response:
    """One look at everything."""
    return answer(shared.manager.queries.status())


@router.get("/whoami", response_model=Who)
async def whoami(caller: AnyCaller) -> Response:
    """As whom the manager knows the caller."""
    return answer(Who(caller.user, ADMIN if caller.is_admin else "user"))


@router.post("/shutdown", status_code=202, response_model=Health)
async def shutdown(caller: Admin, shared: Shared, body: ShutdownBody | None = None) -> Response:
    """End the manager. Runs go on and are found again by the next one, unless they are to be stopped."""
    shared.service.stop((body or ShutdownBody()).stop_jobs)
    return answer(Health("stopping"), 202)
