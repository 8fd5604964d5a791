"""What the processes that speak with Ray share, and those that start them: the connection, frames, refusals.

All calls of Ray are made by a process beside the command or the manager, because Ray ends the process that
has called it when the Ray node of its machine ends. Such a process gets frames over the socket that is its
standard input, and answers in frames.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

HEAD = struct.Struct("!I")
REACH_S = 10.0  # for the first answer of the address


class NoRay(Exception):
    """Ray cannot be used; the message is for the user, `code` is the exit code of the command."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


def require_ray(again: str) -> None:
    """NoRay if it is not installed; `again` is what the user is to do then."""
    if find_spec("ray") is None:
        raise NoRay(2, f"Ray is not installed here; run `pip install 'tiresias[ray]'`, then {again}")


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal()


def connect(address: str, namespace: str, again: str) -> None:
    """Connect this process to Ray, or NoRay; `again` is what the user is to do once it can be used."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
    except (OSError, ValueError) as error:
        raise NoRay(
            5,
            f"no Ray answers at {address} ({error}); start it there with `ray start --head --port={port}`,"
            " or correct --address",
        ) from None
    import ray

    if not _answers(address):
        raise NoRay(
            5, f"Ray at {address} has not answered in {REACH_S:g} s; look at it with `ray status` there"
        )
    try:
        ray.init(address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # noqa: BLE001  (Ray has no common class for what can be wrong)
        raise refusal(address, str(error), ray.__version__, again) from None


def refusal(address: str, said: str, here_ray: str, again: str) -> NoRay:
    """The message for the user when `ray.init` has said this; `here_ray` is the version of Ray here."""
    if "ersion mismatch" in said:
        there = {word: _after(said, word) for word in ("Ray:", "Python:")}
        here = {"Ray:": here_ray, "Python:": ".".join(map(str, sys.version_info[:3]))}
        differs = "; ".join(
            f"{word} {there[word]} there, {here[word]} here" for word in here if there[word] != here[word]
        )
        step = f"`pip install 'ray=={there['Ray:']}'`"
        if there["Ray:"] == here["Ray:"]:
            step = f"a Python {there['Python:']} on this machine"
        return NoRay(
            2, f"Ray at {address} was started by other versions ({differs}); use {step}, then {again}"
        )
    if "raylet" in said or "node_ip_address" in said or "No such file" in said:
        return NoRay(
            2,
            f"no Ray node runs on this machine, and one is needed here ({first_line(said)}); run"
            f" `ray start --address={address}` here, then {again}",
        )
    return NoRay(5, f"Ray at {address} cannot be used: {first_line(said)}")


def _answers(address: str) -> bool:
    """Whether Ray answers there in time. `ray.init` would try for minutes."""
    from ray._raylet import GcsClient  # what `ray health-check` uses

    has_answered = threading.Event()

    def ask() -> None:
        GcsClient(address=address)
        has_answered.set()

    threading.Thread(target=ask, daemon=True).start()
    return has_answered.wait(REACH_S)


def _after(text: str, word: str) -> str:
    found = text.partition(word)[2].split()
    return found[0] if found else ""


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it does not say why")


def last_line(text: str) -> str:
    return first_line("\n".join(reversed(text.splitlines())))


# --- the process beside this one ---------------------------------------------------------------------------


def beside(
    module: str, output: int, prefix: Sequence[str] = ()
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the module as a process beside this one, which writes what Ray says into `output`."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", module],
            stdin=theirs.fileno(),
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C is for the process that has started it, which ends it
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def expect(connection: socket.socket, wanted: str, within_s: float, address: str, log: object) -> Any:
    """The value of the next frame, which must be of the kind `wanted`; NoRay if it is not, or none comes."""
    connection.settimeout(within_s)
    try:
        kind, code, value = read_frame_now(connection)
    except TimeoutError:
        raise NoRay(
            5, f"Ray at {address} has not answered in {within_s:g} s; see `ray status` there"
        ) from None
    except (EOFError, OSError):
        raise NoRay(5, f"the connection to Ray at {address} has ended; {log} says why") from None
    if kind != wanted:
        raise NoRay(code, str(value))
    return value


# --- frames ------------------------------------------------------------------------------------------------


def frame(value: object) -> bytes:
    body = pickle.dumps(value)
    return HEAD.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> Any:
    (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
    return pickle.loads(await reader.readexactly(size))


def read_frame_now(connection: socket.socket) -> Any:
    """The next frame of a socket that waits; EOFError at its end."""

    def exactly(count: int) -> bytearray:
        whole = bytearray(count)
        left = memoryview(whole)
        while left:
            size = connection.recv_into(left)
            if not size:
                raise EOFError
            left = left[size:]
        return whole

    (size,) = HEAD.unpack(exactly(HEAD.size))
    return pickle.loads(exactly(size))
