"""The manager itself: probes, status, shutdown."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tiresias import __version__
from tiresias.api.answers import Health, Version, Who, answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import ADMIN, Admin, AnyCaller
from tiresias.api.described import Described
from tiresias.api.errors import error
from tiresias.api.models import ShutdownBody
from tiresias.api.state import PREFIX, Shared
from tiresias.live.answers import ManagerStatus
from tiresias.live.errors import Unavailable

probes = APIRouter(route_class=Described)
router = APIRouter(prefix=PREFIX, route_class=BodyRoute)


@probes.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Whether the manager answers."""
    return answer(Health("ok"))


@probes.get("/readyz", response_model=Health)
async def readyz(shared: Shared) -> Response:
    """Whether the manager accepts jobs; otherwise 503 with the problem."""
    if shared.manager.problem:
        return error(503, Unavailable.code, shared.manager.problem)
    return answer(Health("ready"))


@probes.get("/version", response_model=Version)
async def version() -> Response:
    return answer(Version(__version__, "v1"))


@router.get("/status", response_model=ManagerStatus)
async def status(caller: AnyCaller, shared: Shared) -> Response:
    """The state of the manager in short."""
    return answer(shared.manager.queries.status())


@router.get("/whoami", response_model=Who)
async def whoami(caller: AnyCaller) -> Response:
    """The user and the role under which the manager knows the caller."""
    return answer(Who(caller.user, ADMIN if caller.is_admin else "user"))


@router.post("/shutdown", status_code=202, response_model=Health)
async def shutdown(caller: Admin, shared: Shared, body: ShutdownBody | None = None) -> Response:
    """End the manager. Runs continue, and the next manager finds them again, unless `stop_jobs` is set."""
    shared.service.stop((body or ShutdownBody()).stop_jobs)
    return answer(Health("stopping"), 202)
