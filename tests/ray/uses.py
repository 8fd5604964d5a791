"""What a worker of a training writes about the slots that it has, by its own environment.

It holds a lock per slot, which the kernel releases when the process dies, however it dies. So a worker that
finds a slot locked shares it with another one that is alive; it writes that down as a violation.

The directory has `records` (a file per worker of a run), `locks` (a file per slot) and `violations`.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path


class Uses:
    """Of the `number`-th of `count` processes of a run, which has these slots."""

    def __init__(self, folder: str, number: int, count: int, slots: list[str]):
        top = Path(folder)
        for each in ("records", "locks", "violations"):
            (top / each).mkdir(parents=True, exist_ok=True)
        key = f"{os.environ['TIRESIAS_JOB_ID']}-{os.environ['TIRESIAS_RUN']}-{number}"
        self._file = open(top / "records" / key, "a")  # noqa: SIM115  (open until the process ends)
        self._write(slots=slots, workers=count, pid=os.getpid(), node=os.uname().nodename)
        self._locks = [self._lock(top, key, slot) for slot in slots]

    def stepped(self) -> None:
        """The first step was taken: all processes of the gang have met."""
        self._write(stepped=time.monotonic())

    def ended(self) -> None:
        """The process is about to end in order."""
        self._write(ended=time.monotonic())

    def _lock(self, top: Path, key: str, slot: str) -> int:
        lock = os.open(top / "locks" / slot, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 100, 0).decode()
            (top / "violations" / f"{key}-{slot}").write_text(f"{key} was given {slot}, which {holder} had")
            return lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, key.encode(), 0)
        return lock

    def _write(self, **what: object) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()
