"""Reads the files that the preloaded library writes, as messages.

A message is what the program hands to the socket at once. A socket often takes only a part of it: the call
returns less than was requested, and the program calls again for the rest. Such calls are one message here.
The structures are those of messages.c.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tiresias.observe.errors import ObserveError

Numbers = npt.NDArray[np.int64]
MAGIC = b"TIRMSG1\0"
HEADER_BYTES = 4096
PATTERN = "*.messages"
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

HEADER = np.dtype(
    [
        ("magic", "V8"),
        ("flows", "<u4"),
        ("records", "<u4"),
        ("pid", "<u8"),
        ("written", "<u8"),
        ("command", "V1024"),
    ]
)
FLOW = np.dtype(
    [
        ("inode", "<u8"),
        ("ready", "<u4"),
        ("family", "<u2"),
        ("type", "<u2"),
        ("local_port", "<u2"),
        ("peer_port", "<u2"),
        ("local", "V16"),
        ("peer", "V16"),
        ("accepted", "<u4"),
        ("rest", "V8"),
    ]
)
RECORD = np.dtype([("at_ns", "<u8"), ("asked", "<u8"), ("sent", "<u8"), ("flow", "<u4"), ("number", "<u4")])


@dataclass(frozen=True, slots=True)
class Address:
    """One end of a connection."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class Flow:
    """What one process sent over one socket, in the order of time."""

    process: int  # the number of its file among all files
    local: Address | None
    peer: Address | None
    at_ns: Numbers  # when each message began
    sizes: Numbers  # bytes of each message
    was_accepted: bool = False  # whether the process accepted the connection, and did not make it

    @property
    def bytes(self) -> int:
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True)
class Process:
    """One process, from its file."""

    pid: int
    command: tuple[str, ...]
    flows: list[Flow]
    local_bytes: int  # sent over Unix sockets, to processes on this machine
    overwritten: int  # how many of its first records were overwritten
    number: int = -1  # of its file among all files, as in its flows
    accepted: tuple[Address, ...] = ()  # its ends of the connections that it accepted, silent ones included


def read_all(directory: Path) -> list[Process]:
    """Every process that sent something, in the order of the files' names; it may still be running."""
    paths = sorted(directory.glob(PATTERN))
    found = (read(path, number) for number, path in enumerate(paths))
    return [each for each in found if each is not None]


def read(path: Path, process: int) -> Process | None:
    """The process of that file; None if the file is not complete yet."""
    data = path.read_bytes()
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        if data.strip(b"\0") and not MAGIC.startswith(data[:8].rstrip(b"\0")):
            raise ObserveError(f"{path} is not a file of recorded messages; take it out of the directory")
        return None
    header = np.frombuffer(data, HEADER, 1)[0]
    flows, capacity, written = int(header["flows"]), int(header["records"]), int(header["written"])
    wanted = HEADER_BYTES + flows * FLOW.itemsize + capacity * RECORD.itemsize
    if len(data) != wanted:
        raise ObserveError(f"{path} has {len(data):,} bytes, not {wanted:,}: it is truncated; record again")
    table = np.frombuffer(data, FLOW, flows, HEADER_BYTES)
    ring = np.frombuffer(data, RECORD, capacity, HEADER_BYTES + flows * FLOW.itemsize)
    records = _valid(ring, written)
    made = [_flow(process, table, records, int(index)) for index in np.unique(records["flow"])]
    words = os.fsdecode(bytes(header["command"]).rstrip(b"\0")).split("\0")
    return Process(
        pid=int(header["pid"]),
        command=tuple(words),
        flows=[flow for flow, family in made if family != AF_UNIX],
        local_bytes=sum(flow.bytes for flow, family in made if family == AF_UNIX),
        overwritten=max(0, written - capacity),
        number=process,
        accepted=_accepted(table),
    )


def _accepted(table: npt.NDArray[Any]) -> tuple[Address, ...]:
    """A process that only receives over a connection has no record of it, but it has accepted it."""
    entries = table[(table["ready"] != 0) & (table["accepted"] != 0)]
    found = (_address(entry["local"], int(entry["local_port"])) for entry in entries)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _valid(ring: npt.NDArray[Any], written: int) -> npt.NDArray[Any]:
    """The records that were written completely, the oldest call first."""
    capacity = len(ring)
    numbers = np.arange(max(0, written - capacity), written, dtype=np.uint64)
    chosen = ring[numbers % capacity]
    chosen = chosen[chosen["number"] == ((numbers + 1) & 0xFFFFFFFF)]
    ordered: npt.NDArray[Any] = chosen[np.argsort(chosen["at_ns"], kind="stable")]
    return ordered


def _flow(process: int, table: npt.NDArray[Any], records: npt.NDArray[Any], index: int) -> tuple[Flow, int]:
    own = records[records["flow"] == index]
    starts = np.flatnonzero(~_continues(own["asked"], own["sent"]))
    sizes = np.add.reduceat(own["sent"], starts).astype(np.int64)
    local = peer = None
    family, was_accepted = 0, False
    if index < len(table) and table[index]["ready"]:
        entry = table[index]
        family, was_accepted = int(entry["family"]), bool(entry["accepted"])
        local = _address(entry["local"], int(entry["local_port"]))
        peer = _address(entry["peer"], int(entry["peer_port"]))
    return Flow(process, local, peer, own["at_ns"][starts].astype(np.int64), sizes, was_accepted), family


def _continues(asked: npt.NDArray[Any], sent: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """For each call, whether it requests exactly what the call before it left."""
    left = asked - sent
    result = np.zeros(len(asked), dtype=np.bool_)
    result[1:] = (left[:-1] > 0) & (asked[1:] == left[:-1])
    return result


def _address(raw: Any, port: int) -> Address | None:
    if port == 0:
        return None
    six = ipaddress.IPv6Address(bytes(raw))
    return Address(str(six.ipv4_mapped or six), port)
