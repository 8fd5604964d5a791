"""Ray as the transport between a manager and the agents of its nodes; it carries, and decides nothing.

All calls of Ray are made by a process beside the manager (ray_carrier.py). While it is not there, every node
is unreachable; it is started again until Ray answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tiresias.core.model import RunId
from tiresias.executors.agent import Answer, Order
from tiresias.executors.base import RunSpec
from tiresias.executors.gang_transport import PATIENCE_S, Refused, Seen, Unreachable
from tiresias.executors.ray_carrier import AGAIN, AGENT_S
from tiresias.executors.ray_connection import (
    REACH_S,
    NoRay,
    beside,
    expect,
    frame,
    read_frame,
    require_ray,
)

MODULE = "tiresias.executors.ray_carrier"
IMPORT_S = 30.0  # for the process to begin on a busy machine
AGAIN_S = 1.0
CONNECTED_S = 0.5  # for the loop to take over a connection that is there

log = logging.getLogger("tiresias")


@dataclass(slots=True, frozen=True)
class RayOptions:
    """What the carrier needs to know; all of it can be pickled."""

    address: str  # of the head, HOST:PORT
    shared: str
    sdk: str
    lease_s: float
    fake_gpus: int  # at most so many per node; 0: the real ones
    uid: int  # of the manager, and its name
    user: str
    manager: Mapping[str, Any]  # journal, home, host and pid, by which other managers know this one
    tests_first: bool = False  # wait at the beginning until every node was tested


class RayTransport:
    """Implements `gang_transport.Transport`. `log_file` gets what Ray writes; `prefix` starts the carrier."""

    def __init__(self, options: RayOptions, log_file: Path, *, prefix: Sequence[str] = ()):
        self._options, self._log_file, self._prefix = options, log_file, prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None  # begun, and not yet used by the loop
        self._writer: asyncio.StreamWriter | None = None
        self._is_connected = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._runner: asyncio.Task[None] | None = None

    def begin(self) -> list[Seen]:
        """Connect; returns the nodes if they were to be tested. NoRay if it cannot be used."""
        require_ray(AGAIN)
        self._connection, begun = self._begun()
        return list(begun.get("nodes", ()))

    # --- the process -----------------------------------------------------------------------------------

    def _begun(self) -> tuple[socket.socket, dict[str, Any]]:
        """Start the carrier, and wait until it is connected to Ray."""
        descriptor = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process, ours = beside(MODULE, descriptor, self._prefix)
        finally:
            os.close(descriptor)
        about = self._options.address, self._log_file
        try:
            ours.sendall(frame({each.name: getattr(self._options, each.name) for each in fields(RayOptions)}))
            expect(ours, "connected", REACH_S + IMPORT_S, *about)
            return ours, expect(ours, "begun", AGENT_S + IMPORT_S, *about) or {}
        except BaseException:
            ours.close()
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def _run(self) -> None:
        """Read answers; when the carrier ends, start another one."""
        while True:
            connection, self._connection = self._connection, None
            if connection is None:
                await asyncio.sleep(AGAIN_S)
                connection = await self._begun_again()
            if connection is None:
                continue
            connection.setblocking(False)
            reader, self._writer = await asyncio.open_connection(sock=connection)
            self._is_connected.set()
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    self._answered(*await read_frame(reader))
            self._is_connected.clear()
            self._writer.close()
            self._writer = None
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(Unreachable("the connection to Ray has ended"))
            self._waiting.clear()
            log.error("the connection to Ray has ended; trying again (%s)", self._log_file)
            await asyncio.to_thread(self._end)

    async def _begun_again(self) -> socket.socket | None:
        try:
            return (await asyncio.to_thread(self._begun))[0]
        except NoRay as error:
            log.error("%s", error)
            return None

    def _answered(self, number: int, kind: str, value: Any) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if kind == "ok":
            future.set_result(value)
        elif kind == "Refused":
            future.set_exception(Refused(value))
        elif kind == "Unreachable":
            future.set_exception(Unreachable(value))
        elif kind == "OSError":
            future.set_exception(OSError(*value))
        else:
            future.set_exception(RuntimeError(f"a call to Ray has failed: {value}"))

    async def _ask(self, method: str, *arguments: object) -> Any:
        loop = asyncio.get_running_loop()
        if self._runner is None:
            self._runner = loop.create_task(self._run())
        if self._writer is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_connected.wait(), CONNECTED_S)
            if self._writer is None:
                raise Unreachable("there is no connection to Ray")
        self._number += 1
        number, future = self._number, loop.create_future()
        self._waiting[number] = future
        try:
            self._writer.write(frame((number, method, arguments)))
            return await future
        finally:
            self._waiting.pop(number, None)

    async def _call(self, node: str, method: str, *arguments: object, wait_s: float = PATIENCE_S) -> Any:
        answer = await self._ask("call", node, method, pickle.dumps(arguments), wait_s)
        return pickle.loads(answer)

    # --- gang_transport.Transport -------------------------------------------------------------------------

    async def nodes(self) -> list[Seen]:
        return list(await self._ask("nodes"))

    async def act(self, node: str, orders: list[Order]) -> None:
        await self._call(node, "act", orders)

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        answer: Answer = await self._call(node, "updates", life, after, wait_s)
        return answer

    async def free_port(self, node: str, spec: RunSpec) -> int:
        return int(await self._call(node, "free_port", spec))

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        await self._ask("reserve", int(run_id), dict(gpus))

    async def release(self, run_id: RunId) -> None:
        await self._ask("release", int(run_id))

    async def reserved(self) -> list[RunId]:
        return [RunId(each) for each in await self._ask("reserved")]

    async def close(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
            with suppress(asyncio.CancelledError):
                await self._runner
        if self._writer is not None:
            self._writer.close()
        if self._connection is not None:
            self._connection.close()
        self._end()
