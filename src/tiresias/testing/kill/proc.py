"""Reads from /proc which processes hold which slots, independently of the manager."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tiresias.executors.spawn_supervisor import CODE


@dataclass(slots=True, frozen=True)
class Holder:
    """A living process of a run."""

    pid: int
    start: str  # in clock ticks since boot; the pair of pid and start is never used twice
    run_id: str
    job_id: str
    slots: tuple[str, ...]


def holders(home: Path) -> list[Holder]:
    """The living processes of all runs of the manager at `home`, recognised by their environment."""
    mark = b"TIRESIAS_RUN_DIR=" + os.fsencode(home) + b"/"
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (holder := _holder(int(name), mark)) is not None:
            found.append(holder)
    return found


def _holder(pid: int, mark: bytes) -> Holder | None:
    environ = _read(pid, "environ")
    if mark not in environ:
        return None
    pairs = (entry.partition(b"=") for entry in environ.split(b"\0"))
    values = {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}
    start = _start(pid)
    if start is None:
        return None
    slots = tuple(slot for slot in values.get("TIRESIAS_SLOTS", "").split(",") if slot)
    return Holder(pid, start, values.get("TIRESIAS_RUN_ID", ""), values.get("TIRESIAS_JOB_ID", ""), slots)


def supervisors(home: Path) -> list[int]:
    """The living supervisors of the runs of this home, without the workers that they are about to become."""
    code, mark = CODE.encode(), os.fsencode(home) + b"/"
    found: dict[int, int] = {}  # pid: pid of its parent
    for name in os.listdir("/proc"):
        if name.isdigit():
            words = _read(int(name), "cmdline").split(b"\0")
            fields = _read(int(name), "stat").rpartition(b")")[2].split()
            if code in words and any(word.startswith(mark) for word in words) and len(fields) > 1:
                found[int(name)] = int(fields[1])
    return [pid for pid, parent in found.items() if parent not in found]


def is_alive(holder: Holder) -> bool:
    return _start(holder.pid) == holder.start


def _start(pid: int) -> str | None:
    """When the process started; None if it does not exist or is a zombie."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return fields[19].decode()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def clashes(found: list[Holder]) -> list[str]:
    """Slots that are held by two runs, and jobs with two runs, at one instant.

    Reading /proc takes a while, in which one run may have ended and another begun. Two processes that are
    both still alive after both were seen were alive at the same time.
    """
    pairs = []
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            if one.run_id == other.run_id:
                continue
            shared = set(one.slots) & set(other.slots)
            if (shared or one.job_id == other.job_id) and is_alive(one) and is_alive(other):
                pairs.append(f"{one} and {other}")
    return pairs
