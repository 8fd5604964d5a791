"""Calls of functions on the nodes of a Ray cluster; a call whose worker is lost runs again elsewhere.

The functions are pure, so that it does no harm if one is called twice. Ray is called by a process beside this
one (ray_tasks_carrier.py), which ends with it. Functions, arguments and results travel as pickled values,
which only this process and the workers read.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Any

from tiresias import __version__
from tiresias.executors.ray_connection import (
    REACH_S,
    NoRay,
    beside,
    expect,
    frame,
    last_line,
    read_frame_now,
)

MODULE = "tiresias.executors.ray_tasks_carrier"
BEGIN_S = 30.0  # for the process to begin on a busy machine
AGAIN = "the same command again"


class RayTasks:
    """`prefix` starts the process that calls Ray."""

    def __init__(self, address: str, *, prefix: Sequence[str] = ()):
        self._address, self._prefix = address, prefix

    def run(
        self,
        work: Callable[..., object],
        calls: Sequence[tuple[tuple[object, ...], object]],
        shared: Mapping[Any, object],
        *,
        at_once: int | None = None,
    ) -> Generator[tuple[int, object], None, None]:
        """Yield (number of the call, result) as they end; each result is what `work` returns.

        A call is its arguments and the key of the value in `shared` that is the last one. `at_once` is how
        many run at the same time, by default one per processor of the cluster. The result of a call whose
        worker was lost again and again is a ChildProcessError. NoRay if there is no Ray, or a node cannot be
        used.
        """
        asked = {
            "address": self._address,
            "version": __version__,
            "work": pickle.dumps(work),
            "calls": [(pickle.dumps(arguments), key) for arguments, key in calls],
            "shared": {key: pickle.dumps(value) for key, value in shared.items()},
            "at_once": at_once,
        }
        with TemporaryFile() as log:
            process, connection = beside(MODULE, log.fileno(), self._prefix)
            try:
                connection.sendall(frame(asked))
                expect(connection, "connected", REACH_S + BEGIN_S, self._address, "Ray on this machine")
                connection.settimeout(None)
                for _ in calls:
                    yield self._next(connection, log)
            finally:
                connection.close()
                process.kill()
                process.wait()

    def _next(self, connection: socket.socket, log: IO[bytes]) -> tuple[int, object]:
        try:
            kind, number, value = read_frame_now(connection)
        except (EOFError, OSError):
            raise NoRay(5, f"the connection to Ray at {self._address} has ended: {_said(log)}") from None
        if kind == "failed":
            raise NoRay(number, value)
        return number, ChildProcessError(value) if kind == "lost" else pickle.loads(value)


def called(version: str, work: bytes, arguments: bytes, shared: bytes) -> tuple[str, Any]:
    """In a Ray worker: what the function returns, or what is wrong with this node."""
    import platform

    if version != __version__:
        return "other", (
            f"node {platform.node()} has Tiresias {__version__}, and this one has {version}; run"
            f" `pip install 'tiresias[ray]=={version}'` there, start Ray there again, then {AGAIN}"
        )
    result = pickle.loads(work)(*pickle.loads(arguments), pickle.loads(shared))
    return "done", pickle.dumps(result)


def _said(log: IO[bytes]) -> str:
    with suppress(OSError):
        log.seek(0)
        return last_line(log.read().decode(errors="replace"))
    return "it does not say why"
