"""The files of ended jobs: how they are removed."""

from __future__ import annotations

from asyncio import to_thread

from fastapi import APIRouter, Response

from tiresias.api.answers import answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import AnyCaller
from tiresias.api.models import PruneBody
from tiresias.api.state import PREFIX, Shared
from tiresias.live.errors import Denied
from tiresias.live.prune import Pruned, prune

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)


@router.post("/prune", response_model=Pruned)
async def remove(body: PruneBody, caller: AnyCaller, shared: Shared) -> Response:
    """Remove output (and checkpoints) of jobs that ended `older_than_s` seconds ago or earlier."""
    if body.all_users and not caller.is_admin:
        raise Denied(f"only an admin may remove the files of other users, and {caller.user} is none")
    manager = shared.manager
    async with shared.pruning:  # one at a time
        found = await to_thread(
            prune,
            manager.paths,
            before_at=manager.now() - body.older_than_s,
            user=None if body.all_users else caller.user,
            checkpoints=body.checkpoints,
            is_dry_run=body.dry_run,
        )
    return answer(found)
