"""The lock that lets only one manager write a journal; it is held as long as the store is open.

The kernel releases the lock when the process ends, however it ends, so a lock file that was left behind does
no harm. Two things are locked: the lock file, which names the holder, and its directory, because somebody may
remove the lock file while the manager runs, and the next manager would then lock a new file. A forked child
does not keep the lock, so a process that outlives the manager does not lock out the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from tiresias.store.errors import InUse, explaining

_held: set[int] = set()


def _forget() -> None:
    """Close the copies of a forked child, which does not release the lock of the parent."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class Lock:
    """Acquired by the constructor; InUse if another process has it."""

    def __init__(self, path: Path, home: Path):
        self.path = path
        self._descriptors: list[int] = []
        try:
            with explaining(path, "take the lock"):
                self._take(home)
        except BaseException:
            self.release()
            raise

    def _take(self, home: Path) -> None:
        file = self._open(self.path, os.O_RDWR | os.O_CREAT)
        folder = self._open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        for descriptor in (file, folder):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InUse(_in_use(file, self.path, home)) from None
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "home": str(home)}).encode(), 0)

    def _open(self, path: Path, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        _held.add(descriptor)
        return descriptor

    def release(self) -> None:
        for descriptor in self._descriptors:
            if descriptor in _held:
                _held.discard(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may not have closed its copy yet
                os.close(descriptor)
        self._descriptors = []


def _in_use(descriptor: int, path: Path, home: Path) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        pid, its_home = holder["pid"], holder["home"]
    except (ValueError, KeyError, TypeError):  # the other process has not written its pid yet
        pid, its_home = "unknown", str(home)
    return (
        f"{path}: another manager (pid {pid}) already uses the home {its_home}; use that one, stop it"
        " with `tiresias down`, or choose another home with TIRESIAS_HOME"
    )
