"""Attaching to the terminal of an interactive job: input and the size of the window.

What the job writes is in its log, which the client follows (`logs.py`); here a stream learns at once that
there is more (`Bell`). The terminal belongs to the supervisor of the run (`executors/terminal.py`), so a
client goes on after a restart of the manager. Only the owner of a job may type in it: whoever does acts as
that person.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Response

from tiresias.api.answers import answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import AnyCaller
from tiresias.api.jobs import Ref
from tiresias.api.logtext import size_of
from tiresias.api.models import TerminalBody, WindowBody
from tiresias.api.state import PREFIX, Shared
from tiresias.executors.terminal import ACCEPTED, FULL, INPUT, SIZE, SOCKET
from tiresias.live.errors import Conflict, Invalid, Unavailable

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)
SCREEN_BYTES = 8 * 1024  # of earlier output that somebody who attaches sees
ANSWER_S = 5.0  # a supervisor answers at once, unless the machine is very busy
SESSION_BYTES = 8


@dataclass(slots=True)
class Attached:
    """`session` numbers the input of one client; output is in the log of `run` from `offset` on."""

    job: int
    session: str
    run: int
    offset: int


@router.post("/jobs/{ref}/terminal", response_model=Attached)
async def attach(ref: Ref, body: WindowBody, caller: AnyCaller, shared: Shared) -> Response:
    """Attach to the terminal of a job of the caller."""
    id = shared.manager.queries.find(caller, ref)
    found = shared.manager.queries.terminal(caller, id)
    await _resize(found.path.parent, body)
    offset = max(0, size_of(found.path) - SCREEN_BYTES)
    return answer(Attached(id, os.urandom(SESSION_BYTES).hex(), found.run, offset))


@router.post("/jobs/{ref}/terminal/input", status_code=204)
async def type_in(ref: Ref, body: TerminalBody, caller: AnyCaller, shared: Shared) -> Response:
    """Type in the terminal. The same `number` of a session is never typed twice."""
    id = shared.manager.queries.find(caller, ref)
    found = shared.manager.queries.terminal(caller, id)
    try:
        data = base64.b64decode(body.input, validate=True)
        session = bytes.fromhex(body.session)
    except (binascii.Error, ValueError):
        raise Invalid("input must be base64, and session what the manager answered; attach again") from None
    if len(session) != SESSION_BYTES:
        raise Invalid(f"session {body.session!r} is not one of this manager; attach again")
    reply = await _send(found.path.parent, INPUT + session + body.number.to_bytes(8, "big") + data)
    if reply == FULL:
        raise Unavailable("the program does not read what is typed; type less, or send it again later")
    return Response(status_code=204)


@router.put("/jobs/{ref}/terminal/window", status_code=204)
async def resize(ref: Ref, body: WindowBody, caller: AnyCaller, shared: Shared) -> Response:
    """The window of whoever is attached has another size."""
    id = shared.manager.queries.find(caller, ref)
    await _resize(shared.manager.queries.terminal(caller, id).path.parent, body)
    return Response(status_code=204)


async def _resize(run_dir: Path, window: WindowBody) -> None:
    await _send(run_dir, SIZE + struct.pack(">HH", window.rows, window.columns))


async def _send(run_dir: Path, message: bytes) -> bytes:
    """What the supervisor answers to a message."""
    loop = asyncio.get_running_loop()
    with contextlib.closing(_connected(run_dir)) as connection:
        try:
            connection.send(message)
            async with asyncio.timeout(ANSWER_S):
                while True:
                    reply = await loop.sock_recv(connection, 16)
                    if not reply:
                        raise Conflict("the program has ended")
                    if reply in (ACCEPTED, FULL):
                        return reply
        except TimeoutError:
            raise Unavailable(f"the terminal has not answered for {ANSWER_S:g} s; try again") from None
        except OSError as error:
            raise Conflict(f"the terminal is gone ({error.strerror})") from None


def _connected(run_dir: Path) -> socket.socket:
    """A connection to the terminal of a run. No call here waits."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # through the descriptor: the path of a socket may have 107 bytes only
            connection.connect(f"/proc/self/fd/{directory}/{SOCKET}")
        finally:
            os.close(directory)
    except BlockingIOError:
        connection.close()
        raise Unavailable("the terminal is busy; try again") from None
    except OSError as error:
        connection.close()
        raise Conflict(
            f"the terminal of the job cannot be reached ({error.strerror}): its run is starting or has ended,"
            " or it is on another machine"
        ) from None
    return connection


class Bell:
    """Rings when the terminal of a run has written something."""

    def __init__(self, run_dir: Path):
        self._connection = _connected(run_dir)

    async def wait(self, most_s: float) -> None:
        """Wait until it rings, for at most so long."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(most_s):
                if not await loop.sock_recv(self._connection, 1):
                    await asyncio.sleep(most_s)  # the run is over, which the journal tells soon
            with contextlib.suppress(BlockingIOError):
                while self._connection.recv(1):  # it may have rung more than once
                    pass
        except TimeoutError:
            pass
        except OSError:
            await asyncio.sleep(most_s)

    def close(self) -> None:
        self._connection.close()


class Bells:
    """The bell of the run at which a stream is."""

    def __init__(self) -> None:
        self._bell: Bell | None = None
        self._run_dir: Path | None = None

    def at(self, run_dir: Path) -> Bell | None:
        """None where there is no terminal, or not yet, or not on this machine."""
        if run_dir != self._run_dir:
            self.close()
            self._bell = _bell_of(run_dir)
            self._run_dir = None if self._bell is None else run_dir
        return self._bell

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()


def _bell_of(run_dir: Path) -> Bell | None:
    if not (run_dir / SOCKET).exists():
        return None
    try:
        return Bell(run_dir)
    except (Conflict, Unavailable):
        return None
