"""Nodes: their GPUs and jobs, and taking a node or one GPU out of service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from tiresias.api.answers import Nodes
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import Admin, AnyCaller
from tiresias.api.models import DrainBody
from tiresias.api.sliced import answer_in_slices
from tiresias.api.state import PREFIX, Shared

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)
What = Annotated[str, Path(description="a node, or one GPU as `node:index`", max_length=200)]


@router.get("/nodes", response_model=Nodes)
async def nodes(caller: AnyCaller, shared: Shared) -> Response:
    """Every node with its GPUs, and which job holds each."""
    return await answer_in_slices(shared.manager.queries.nodes.slices(), Nodes)


@router.post("/nodes/{what}/drain", response_model=Nodes)
async def drain(what: What, caller: Admin, shared: Shared, body: DrainBody | None = None) -> Response:
    """Take a node or a GPU out of service. Runs on it continue until they end or are preempted.

    With `deadline_s`, those that are left after so many seconds are stopped, and their jobs queue again.
    """
    asked = body or DrainBody()
    shared.manager.requests.drain(caller, what, asked.reason, asked.deadline_s)
    await shared.service.committed()
    return await answer_in_slices(shared.manager.queries.nodes.slices(), Nodes)


@router.post("/nodes/{what}/undrain", response_model=Nodes)
async def undrain(what: What, caller: Admin, shared: Shared) -> Response:
    """Put a node or a GPU back in service."""
    shared.manager.requests.undrain(caller, what)
    await shared.service.committed()
    return await answer_in_slices(shared.manager.queries.nodes.slices(), Nodes)
