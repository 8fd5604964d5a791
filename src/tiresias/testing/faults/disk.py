"""The disk of the simulated machine: files in memory, with what a loss of power leaves of them.

What is written is visible at once, to every process, also after its writer was killed. It is durable when it
was synced: the content of a file by fsync of the file, names by fsync of the directory that they are in,
which makes the directories above durable, too, as Linux file systems do it. In a loss of power everything
else is kept, lost or cut off at random, each name and each file by itself.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from random import Random


@dataclass(slots=True, eq=False)
class Inode:
    mode: int
    mtime_ns: int
    data: bytes = b""
    durable: bytes = b""
    reserved: int = 0  # bytes for which there is room on a full disk
    readers: int = 0  # of a pipe: descriptors that are open for reading
    seen_at: float = 0.0  # of a pipe: when its reader gets to know of the data

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def st_mode(self) -> int:
        return self.mode

    @property
    def st_mtime_ns(self) -> int:
        return self.mtime_ns


def fail(code: int, path: str = "") -> OSError:
    """The error of a system call, of the class that Python has for it."""
    return OSError(code, os.strerror(code), path) if path else OSError(code, os.strerror(code))


class Disk:
    """Names are absolute paths. `is_full` keeps new data and new names out."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._changed: set[str] = set()  # names that differ from what is durable
        self._dirty: set[Inode] = set()  # files whose content does
        self.is_full = False

    # --- names -----------------------------------------------------------------------------------------

    def find(self, path: str) -> Inode:
        if path == "/":
            return Inode(stat.S_IFDIR, 0)
        inode = self.names.get(path)
        if inode is None:
            raise fail(errno.ENOENT, path)
        return inode

    def add(self, path: str, inode: Inode) -> None:
        """Give the file a name in a directory that must be there."""
        if path in self.names:
            raise fail(errno.EEXIST, path)
        if not self.find(path.rpartition("/")[0] or "/").is_directory:
            raise fail(errno.ENOTDIR, path)
        if self.is_full:
            raise fail(errno.ENOSPC, path)
        self.names[path] = inode
        self._changed.add(path)

    def remove(self, path: str) -> Inode:
        inode = self.find(path)
        del self.names[path]
        self._changed.add(path)
        return inode

    def rename(self, source: str, target: str) -> None:
        inode = self.find(source)
        if self.is_full and target not in self.names:
            raise fail(errno.ENOSPC, target)
        del self.names[source]
        self.names[target] = inode
        self._changed |= {source, target}

    # --- contents --------------------------------------------------------------------------------------

    def write(self, inode: Inode, data: bytes, offset: int, most: int) -> int:
        """Write at most so many bytes, as far as there is room."""
        data = data[:most]
        if self.is_full:
            data = data[: max(0, inode.reserved - offset)]
            if not data:
                raise fail(errno.ENOSPC)
        inode.data = inode.data[:offset].ljust(offset, b"\0") + data + inode.data[offset + len(data) :]
        self._dirty.add(inode)
        return len(data)

    def truncate(self, inode: Inode, length: int) -> None:
        inode.data = inode.data[:length].ljust(length, b"\0")
        self._dirty.add(inode)

    # --- durability ------------------------------------------------------------------------------------

    def sync(self, path: str, inode: Inode) -> None:
        if not inode.is_directory:
            inode.durable = inode.data
            self._dirty.discard(inode)
            return
        start = path.rstrip("/") + "/"
        for name in [each for each in self._changed if each.startswith(start)]:
            if "/" not in name[len(start) :]:
                self._settle(name)
        while path != "/":
            self._settle(path)
            path = os.path.dirname(path)

    def _settle(self, name: str) -> None:
        """What the name stands for now is what it will stand for after a loss of power."""
        self._changed.discard(name)
        if name in self.names:
            self._durable[name] = self.names[name]
        else:
            self._durable.pop(name, None)

    def lose_power(self, rng: Random) -> None:
        """Keep what is durable; of everything else, what chance leaves."""
        for name in sorted(self._changed):
            if rng.random() < 0.5:
                self._settle(name)
        self.names = dict(self._durable)
        for name in sorted(self.names):  # a directory that is lost takes along what is in it
            if os.path.dirname(name) not in self.names and os.path.dirname(name) != "/":
                del self.names[name]
        self._durable = dict(self.names)
        for inode in {id(each): each for each in self.names.values()}.values():
            if inode in self._dirty:
                kept = rng.choice((inode.data, inode.durable, b"", inode.data[: len(inode.data) // 2]))
                inode.data = inode.durable = kept
        self._changed.clear()
        self._dirty.clear()
        for inode in self.names.values():
            inode.readers = 0
