"""The caller of a request, identified by the credentials of a Unix socket or by a token.

Rules: the manager's own user and root are admins; all others that may open the socket are users. TCP requires
a token. A manager that runs as root starts each run under the account of its submitter, so there a
submitter needs an account on this machine.
"""

from __future__ import annotations

import os
import pwd
import resource
import time
from dataclasses import replace
from pathlib import Path
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
RESOURCES = {  # by their names in /proc/PID/limits, which needs no privilege, as prlimit does
    "Max cpu time": resource.RLIMIT_CPU,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max data size": resource.RLIMIT_DATA,
    "Max stack size": resource.RLIMIT_STACK,
    "Max core file size": resource.RLIMIT_CORE,
    "Max resident set": resource.RLIMIT_RSS,
    "Max processes": resource.RLIMIT_NPROC,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max locked memory": resource.RLIMIT_MEMLOCK,
    "Max address space": resource.RLIMIT_AS,
    "Max pending signals": resource.RLIMIT_SIGPENDING,
    "Max msgqueue size": resource.RLIMIT_MSGQUEUE,
    "Max nice priority": resource.RLIMIT_NICE,
    "Max realtime priority": resource.RLIMIT_RTPRIO,
    "Max realtime timeout": resource.RLIMIT_RTTIME,
}
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


async def get_submitter(request: Request, caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    """The caller, with the umask and the limits of the process that submits."""
    must_have_account(caller)
    peer = request.scope.get(PEER)
    if peer is None or caller.identity is None:
        return caller
    return replace(caller, identity=with_process(caller.identity, peer))


def with_process(identity: Identity, peer: Peer) -> Identity:
    """The identity with the umask and the limits of this process, if it still belongs to the peer."""
    try:
        limits = _limits(Path(f"/proc/{peer.pid}/limits").read_text())
        lines = Path(f"/proc/{peer.pid}/status").read_text().splitlines()
    except (OSError, ValueError):  # it has ended, or is not visible from here
        return identity
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    if "Umask" not in status or int(status["Uid"][1]) != peer.uid:
        return identity
    return replace(identity, umask=int(status["Umask"][0], 8), limits=limits)


def _limits(table: str) -> tuple[tuple[int, int, int], ...]:
    """The limits in /proc/PID/limits, whose columns have fixed widths."""
    rows = [(RESOURCES.get(line[:26].rstrip()), line[26:].split()) for line in table.splitlines()]
    return tuple((which, _bound(row[0]), _bound(row[1])) for which, row in rows if which is not None)


def _bound(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)


async def get_admin(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
    if not caller.is_admin:
        raise Denied(f"only an admin may do this, and {caller.user} is not one; ask an admin")
    return caller


AnyCaller = Annotated[Caller, Depends(get_caller)]
Submitter = Annotated[Caller, Depends(get_submitter)]
Admin = Annotated[Caller, Depends(get_admin)]


def must_have_account(caller: Caller) -> None:
    """Refuse submissions without an account where runs are started under that of their submitter."""
    if runs_as_submitter() and caller.identity is None:
        raise Denied(
            f"the user {caller.user!r} has no account on this machine, and a manager that runs as root starts"
            " runs under the accounts of their submitters; use a token of an account, or run the manager as"
            " another user"
        )
