"""The caller of a request, identified by the credentials of a Unix socket or by a token.

Rules: the manager's own user and root are admins; all others that may open the socket are users. TCP requires
a token. A manager that runs as root starts each run under the account of its submitter, so there a
submitter needs an account on this machine.
"""

from __future__ import annotations

import os
import pwd
import time
from typing import Annotated

from fastapi import Depends, Request

from tiresias.api.audit import USER
from tiresias.api.errors import Unauthenticated, UnknownToken
from tiresias.api.peers import PEER, Peer
from tiresias.api.state import State, state_of
from tiresias.executors.base import Identity
from tiresias.live.errors import Denied
from tiresias.live.submission import Caller

ADMIN = "admin"
CALLER = "tiresias.caller"  # in the scope, once the caller is known
ACCOUNTS_KEPT_S = 60.0  # a directory service may be slow; a change of groups may take effect this late


class Accounts:
    """The machine's accounts, each looked up at most once per minute."""

    def __init__(self) -> None:
        self._by_uid: dict[int, tuple[float, Identity | None]] = {}

    def of_uid(self, uid: int) -> Identity | None:
        found = self._by_uid.get(uid)
        if found is None or found[0] < time.monotonic():
            found = time.monotonic() + ACCOUNTS_KEPT_S, _by_uid(uid)
            self._by_uid[uid] = found
        return found[1]


def _by_uid(uid: int) -> Identity | None:
    try:
        return _identity(pwd.getpwuid(uid))
    except KeyError:
        return None


def of_name(user: str) -> Identity | None:
    """The account of this name; None if there is none."""
    try:
        return _identity(pwd.getpwnam(user))
    except (KeyError, ValueError):
        return None


def _identity(found: pwd.struct_passwd) -> Identity:
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Identity(found.pw_uid, found.pw_gid, groups, found.pw_name, found.pw_dir)


def runs_as_submitter() -> bool:
    """Whether runs are started under the account of their submitter, which only root can do."""
    return os.geteuid() == 0


def caller_of_peer(peer: Peer, accounts: Accounts) -> Caller:
    account = accounts.of_uid(peer.uid)
    user = account.user if account else str(peer.uid)
    identity = account or Identity(peer.uid, peer.gid, (peer.gid,), user, "/")
    return Caller(
        user,
        is_admin=peer.uid in (0, os.geteuid()),
        identity=identity if runs_as_submitter() else None,
    )


def caller_of_token(header: str | None, state: State) -> Caller:
    kind, _, token = (header or "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated(
            "the request has no token; send one as `Authorization: Bearer TOKEN` (`tir token create` makes"
            " one), or use the manager's Unix socket"
        )
    found = state.manager.store.token(token.strip())
    if found is None:
        raise UnknownToken("this token is not known, it may have been revoked; ask an admin for another")
    identity = of_name(found.user) if runs_as_submitter() else None
    return Caller(found.user, found.role == ADMIN, identity)


async def caller_of(request: Request) -> Caller:
    """The caller, who is identified once per request."""
    known: Caller | None = request.scope.get(CALLER)
    if known is not None:
        return known
    state = state_of(request)
    peer = request.scope.get(PEER)
    if peer is not None:
        caller = caller_of_peer(peer, state.accounts)
    else:
        try:
            caller = caller_of_token(request.headers.get("authorization"), state)
        except UnknownToken:
            await state.failed_tokens.delay(request.client.host if request.client else "an unknown address")
            raise
    request.scope[USER] = caller.user
    request.scope[CALLER] = caller
    return caller


async def get_caller(request: Request) -> Caller:
    return await caller_of(request)


async def get_admin(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    if not caller.is_admin:
        raise Denied(f"only an admin may do this, and {caller.user} is not one; ask an admin")
    return caller


AnyCaller = Annotated[Caller, Depends(get_caller)]
Admin = Annotated[Caller, Depends(get_admin)]


def must_have_account(caller: Caller) -> None:
    """Refuse submissions without an account where runs are started under that of their submitter."""
    if runs_as_submitter() and caller.identity is None:
        raise Denied(
            f"the user {caller.user!r} has no account on this machine, and a manager that runs as root starts"
            " runs under the accounts of their submitters; use a token of an account, or run the manager as"
            " another user"
        )
