"""Tokens for TCP. Only their hashes are stored, so a token is shown once, when it is created."""

from __future__ import annotations

import secrets
import time
from typing import Annotated

from fastapi import APIRouter, Path, Response

from tiresias.api.answers import NewToken, TokenReport, Tokens, answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import Admin, of_name, runs_as_submitter
from tiresias.api.models import TokenBody
from tiresias.api.state import PREFIX, Shared
from tiresias.live.errors import Conflict, Invalid, NotFound

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)
PREFIX = "tir_"  # so that scanners for leaked secrets can recognise one


@router.get("/tokens", response_model=Tokens)
async def tokens(caller: Admin, shared: Shared) -> Response:
    """The tokens by name; the tokens themselves are not stored."""
    found = shared.manager.store.tokens()
    return answer(Tokens([TokenReport(each.name, each.user, each.role, each.created_at) for each in found]))


@router.post("/tokens", status_code=201, response_model=NewToken)
async def create(body: TokenBody, caller: Admin, shared: Shared) -> Response:
    """Create a token. This answer is the only one that contains it."""
    store = shared.manager.store
    if any(each.name == body.name for each in store.tokens()):
        raise Conflict(f"there is a token named {body.name!r} already; revoke it, or choose another name")
    if runs_as_submitter() and of_name(body.user) is None:
        raise Invalid(
            f"user: there is no account {body.user!r} on this machine, and a manager that runs as root"
            " starts runs under the accounts of their submitters; name an account"
        )
    token = PREFIX + secrets.token_urlsafe(32)
    store.add_token(token, name=body.name, user=body.user, role=body.role, at=time.time())
    return answer(NewToken(body.name, token), 201)


@router.delete("/tokens/{name}", status_code=204)
async def revoke(name: Annotated[str, Path(max_length=200)], caller: Admin, shared: Shared) -> Response:
    """Revoke a token. It is not accepted from now on."""
    if not shared.manager.store.revoke_token(name):
        raise NotFound(f"there is no token named {name!r}; `tir token ls` lists them")
    return Response(status_code=204)
