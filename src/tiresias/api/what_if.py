"""What-if: the past of this manager under other policies and with more GPUs, as a stream with its progress.

Rules: it is computed in a process of its own, of the lowest priority and bounded (what_if_child.py), never by
the manager. Each user has one at a time: a new one ends the former. MOST_AT_ONCE run together; further
callers are asked to come again. The process ends with the stream, so closing the page cancels it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from tiresias.api import sse
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.api.past import Since
from tiresias.api.state import PREFIX, Shared, State
from tiresias.api.streams import stream
from tiresias.api.what_ifs import Running, spawn
from tiresias.core.plugins import OptionError, policies
from tiresias.live.errors import Invalid, Unavailable
from tiresias.live.submission import Caller

router = APIRouter(prefix=PREFIX, route_class=Described)
MOST_POLICIES, MOST_SIZES, MOST_MORE_GPUS = 4, 3, 10_000
REPLACED = "you have asked for another what-if, which has ended this one"
TOO_LONG = "it took too much processor time; ask for a shorter window or for fewer policies"
TOO_LARGE = "it took too much memory; ask for a shorter window"


@router.get("/what-if", response_model=None)
async def what_if(
    caller: AnyCaller,
    shared: Shared,
    policy: Annotated[
        list[str] | None, Query(description="a policy to compare with; may be repeated")
    ] = None,
    more_gpus: Annotated[
        list[int] | None, Query(description="so many more GPUs under the policy in use; may be repeated")
    ] = None,
    since_s: Since = 30 * 86400.0,
) -> Response:
    """What ended jobs would have got under other policies or with more GPUs: a stream with progress."""
    question = _question(shared, caller, policy or [], more_gpus or [], since_s)
    shared.what_ifs.check(caller.user)
    return stream(_computed(shared, caller.user, question))


def _question(
    shared: State, caller: Caller, names: list[str], sizes: list[int], since_s: float
) -> dict[str, Any]:
    if len(names) > MOST_POLICIES or len(sizes) > MOST_SIZES:
        raise Invalid(f"give at most {MOST_POLICIES} policies and {MOST_SIZES} numbers of more GPUs")
    for name in names:
        try:
            policies.get(name)
        except OptionError as error:
            raise Invalid(f"policy: {error}") from None
    for size in sizes:
        if not 1 <= size <= MOST_MORE_GPUS:
            raise Invalid(f"more_gpus: {size} is not between 1 and {MOST_MORE_GPUS:,}")
    manager = shared.manager
    used = manager.queries.policy()
    in_use = {"policy": used["name"], "options": used["options"], "more_gpus": 0}
    others = [{"policy": name, "options": {}, "more_gpus": 0} for name in dict.fromkeys(names)]
    return {
        "journal": str(manager.store.path.absolute()),
        "since_at": manager.now() - since_s,
        "user": caller.user,
        "home": str(manager.home.absolute()),
        "placer": used["placer"],
        "placer_options": {**used["placer_learned"], **used["placer_options"]},
        "nodes": [[node.name, node.gpus, node.sockets] for node in manager.state.ledger.nodes if node.gpus],
        "scenarios": [
            in_use,
            *(each for each in others if each["policy"] != used["name"]),
            *({**in_use, "more_gpus": size} for size in dict.fromkeys(sizes)),
        ],
    }


async def _computed(shared: State, user: str, question: dict[str, Any]) -> AsyncIterator[bytes]:
    try:
        running = await shared.what_ifs.begin(user)
    except Unavailable as problem:
        yield _event("failed", {"message": str(problem)})
        return
    closing = asyncio.ensure_future(shared.closing.wait())
    try:
        process = running.process = await spawn()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")  # and it stays open: its end is an order
        if running.is_replaced:  # while it was started
            yield _event("failed", {"message": REPLACED})
            return
        labels = [{key: each[key] for key in ("policy", "more_gpus")} for each in question["scenarios"]]
        yield _event("begun", {"scenarios": labels})
        reading = asyncio.ensure_future(process.stdout.readline())
        while not closing.done():
            await asyncio.wait(
                (reading, closing), timeout=sse.HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not reading.done():
                yield sse.HEARTBEAT
                continue
            line = reading.result()
            if not line:
                await process.wait()
                yield _event("failed", {"message": _why(running)})
                return
            name, value = json.loads(line)
            yield _event(name, value)
            if name != "progress":
                return
            reading = asyncio.ensure_future(process.stdout.readline())
    finally:
        closing.cancel()
        await asyncio.shield(shared.what_ifs.end(user, running))


def _why(running: Running) -> str:
    """Why the process has ended without an answer."""
    code = None if running.process is None else running.process.returncode
    if running.is_replaced:
        return REPLACED
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return TOO_LONG
    return TOO_LARGE if code in (-signal.SIGABRT, -signal.SIGSEGV, 1) else f"its process ended with {code}"


def _event(name: str, value: Any) -> bytes:
    return sse.event(name, json.dumps(value).encode())
