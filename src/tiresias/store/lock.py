"""One writer for a journal: a lock file held as long as the store is open.

The kernel lets go of the lock when the process ends, however it ends, so a stale file does no harm. A
forked child does not inherit it: a job's supervisor that outlives the manager keeps nobody out.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from tiresias.store.errors import InUse, explaining

_held: set[int] = set()


def _forget() -> None:
    """In a forked child: close the copies, which leaves the parent's lock alone."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class Lock:
    """Taken when made; `release` gives it back."""

    def __init__(self, path: Path, home: Path):
        self.path = path
        with explaining(path, "take the lock"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with explaining(path, "take the lock"):
                self._take(descriptor, home)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor: int | None = descriptor
        _held.add(descriptor)

    def _take(self, descriptor: int, home: Path) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(_who(descriptor, self.path, home)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "home": str(home)}).encode(), 0)

    def release(self) -> None:
        if self._descriptor is not None and self._descriptor in _held:
            _held.discard(self._descriptor)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # for the copy of a child, too, that has not run yet
            os.close(self._descriptor)
        self._descriptor = None


def _who(descriptor: int, path: Path, home: Path) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        pid, its_home = holder["pid"], holder["home"]
    except (ValueError, KeyError, TypeError):  # it has the lock and has not signed yet
        pid, its_home = "unknown", str(home)
    return (
        f"{path}: another manager (pid {pid}) already uses the home {its_home}; talk to that one, stop it"
        " with `tiresias down`, or choose another home with TIRESIAS_HOME"
    )
