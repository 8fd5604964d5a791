"""Policy, placer, limits and shares."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from tiresias.api.answers import AllLimits, AllShares, answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import Admin, AnyCaller
from tiresias.api.models import LimitsBody, PolicyBody, SharesBody
from tiresias.api.state import PREFIX, Shared
from tiresias.live.answers import Limits, QueueInfo

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)
User = Annotated[str, Path(description="a user, or `*` for all without limits of their own", max_length=200)]


@router.get("/policy", response_model=dict[str, Any])
async def policy(caller: AnyCaller, shared: Shared) -> Response:
    """The policy and the placer in use, with their options."""
    return answer(shared.manager.queries.policy())


@router.get("/queue", response_model=QueueInfo)
async def queue(caller: AnyCaller, shared: Shared) -> Response:
    """The queues of the policy, what it has learned, and which runs would be preempted next."""
    return answer(shared.manager.queries.order.info())


@router.put("/policy", response_model=dict[str, Any])
async def set_policy(body: PolicyBody, caller: Admin, shared: Shared) -> Response:
    """Change the policy, the placer or their options. All jobs are kept."""
    shared.manager.requests.set_policy(caller, body.policy, body.options, body.placer, body.placer_options)
    await shared.service.committed()
    return answer(shared.manager.queries.policy())


@router.get("/limits", response_model=AllLimits)
async def limits(caller: AnyCaller, shared: Shared) -> Response:
    """The limits by user; a user sees its own and those of `*`."""
    return answer(AllLimits(shared.manager.queries.limits(caller)))


@router.put("/limits/{user}", response_model=AllLimits)
async def set_limits(user: User, body: LimitsBody, caller: Admin, shared: Shared) -> Response:
    """Replace a user's limits."""
    shared.manager.requests.set_limits(caller, user, Limits(body.max_running_gpus, body.max_active_jobs))
    await shared.service.committed()
    return answer(AllLimits(shared.manager.queries.limits(caller)))


@router.get("/shares", response_model=AllShares)
async def shares(caller: AnyCaller, shared: Shared) -> Response:
    """The weights of tenants; a tenant that is not named has a weight of 1."""
    return answer(AllShares(shared.manager.queries.shares()))


@router.put("/shares", response_model=AllShares)
async def set_shares(body: SharesBody, caller: Admin, shared: Shared) -> Response:
    """Replace the weights of all tenants."""
    shared.manager.requests.set_shares(caller, body.shares)
    await shared.service.committed()
    return answer(AllShares(shared.manager.queries.shares()))
