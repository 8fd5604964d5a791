"""The system calls of a process on the simulated machine, any of which may fail as on a real one.

See `executors.kernel.Kernel` for the interface. There is one SimulatedKernel per process, because descriptors
belong to a process. The process of a manager may be killed at every call that has an effect.
"""

from __future__ import annotations

import errno
import marshal
import os
import re
import select
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiresias.testing.faults.disk import Inode, fail

if TYPE_CHECKING:
    from tiresias.testing.faults.world import World

PROC_STAT = re.compile(r"/proc/(\d+)/stat")
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(slots=True, eq=False)
class Process:
    """A process on the simulated machine. `parent` is the kernel of the manager that started it."""

    pid: int
    start: int  # in clock ticks since boot
    parent: SimulatedKernel | None = None
    plan: dict[str, Any] | None = None  # of a supervisor
    is_alive: bool = True
    status: int = 0  # as waitpid returns it
    seen_at: float = 0.0  # when its parent gets to know of its end
    is_stopped: bool = False  # it has received SIGTERM
    is_killing: bool = False  # it has received SIGINT: its gang must be killed at once


@dataclass(slots=True, eq=False)
class Opened:
    """A descriptor of a file, a pipe or a process."""

    path: str
    inode: Inode | None = None
    process: Process | None = None
    epoll: SimulatedEpoll | None = None
    offset: int = 0
    is_reader: bool = False


class SimulatedTimer:
    def __init__(self) -> None:
        self._is_alive = True

    def is_alive(self) -> bool:
        return self._is_alive

    def cancel(self) -> None:
        self._is_alive = False

    def join(self) -> None:
        """Nothing to wait for: there are no threads."""


class SimulatedEpoll:
    def __init__(self, kernel: SimulatedKernel):
        self._kernel = kernel
        self._watched: dict[int, int] = {}
        self.fd = -1

    def register(self, fd: int, eventmask: int, /) -> None:
        self._kernel.opened(fd)
        self._watched[fd] = eventmask

    def unregister(self, fd: int, /) -> None:
        del self._watched[fd]

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        return [(fd, select.EPOLLIN) for fd in list(self._watched) if self._kernel.is_readable(fd)]

    def is_readable(self) -> bool:
        """Whether `poll` would return anything."""
        return any(self._kernel.is_readable(fd) for fd in self._watched)

    def fileno(self) -> int:
        return self.fd

    def close(self) -> None:
        self._kernel.close(self.fd)


class SimulatedKernel:
    """`point` is called before each effect, and may raise. Without `is_limited` only the disk may fail."""

    def __init__(self, world: World, pid: int, point: Callable[[str], None], *, is_limited: bool = True):
        self._world, self._pid, self._point = world, pid, point
        self._is_limited = is_limited
        self._opened: dict[int, Opened] = {}
        self.is_dead = False

    def die(self) -> None:
        """The process ends: its descriptors are closed, and its children have no parent any more."""
        self.is_dead = True
        for fd in list(self._opened):
            self.close(fd)
        self._world.lose_parent(self)

    # --- what the machine lacks ------------------------------------------------------------------------

    def _lacks(self, code: int) -> bool:
        world = self._world
        return code in world.shortages and world.rng.random() < world.shortages[code]

    def _need(self, code: int) -> None:
        """Raise this error if the machine lacks what it stands for."""
        if self._is_limited and self._lacks(code):
            self._world.log("fails", errno.errorcode[code])
            raise fail(code)

    def _write_disk(self, what: str) -> None:
        """Before each change of the disk."""
        self._point(what)
        self._world.disk.is_full = self._lacks(errno.ENOSPC)

    # --- descriptors -----------------------------------------------------------------------------------

    def opened(self, fd: int) -> Opened:
        found = self._opened.get(fd)
        if found is None:
            raise fail(errno.EBADF)
        return found

    def _new(self, opened: Opened) -> int:
        fd = 3
        while fd in self._opened:
            fd += 1
        self._opened[fd] = opened
        return fd

    def is_readable(self, fd: int) -> bool:
        found, at = self.opened(fd), self._world.at
        if found.epoll is not None:
            return found.epoll.is_readable()
        if found.process is not None:
            return not found.process.is_alive and at >= found.process.seen_at
        assert found.inode is not None
        return bool(found.inode.data) and at >= found.inode.seen_at

    def close(self, fd: int, /) -> None:
        found = self.opened(fd)
        del self._opened[fd]
        if found.is_reader and found.inode is not None:
            found.inode.readers = max(0, found.inode.readers - 1)  # 0 already after a loss of power

    # --- files -----------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:
        self._need(errno.EMFILE)
        if path.startswith("/proc/"):
            return self._new(Opened(path, self._proc(path)))
        disk = self._world.disk
        inode = disk.names.get(path)
        if inode is None and flags & os.O_CREAT:
            self._write_disk(f"before {path} is created")
            inode = Inode(stat.S_IFREG | mode, self._now_ns())
            disk.add(path, inode)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise fail(errno.EEXIST, path)
        inode = disk.find(path)
        if flags & os.O_DIRECTORY and not inode.is_directory:
            raise fail(errno.ENOTDIR, path)
        if flags & os.O_TRUNC:
            disk.truncate(inode, 0)
        opened = Opened(path, inode)
        if stat.S_ISFIFO(inode.mode):
            opened.is_reader = not flags & os.O_WRONLY
            inode.readers += opened.is_reader
            if not inode.readers:
                raise fail(errno.ENXIO, path)
        return self._new(opened)

    def _proc(self, path: str) -> Inode:
        world = self._world
        if path == BOOT_ID:
            return Inode(stat.S_IFREG, 0, world.boot_id.encode() + b"\n")
        found = PROC_STAT.fullmatch(path)
        process = world.processes.get(int(found[1])) if found else None
        if process is None:
            raise fail(errno.ENOENT, path)
        state, pid = "S" if process.is_alive else "Z", str(process.pid)
        fields = [state, "1", pid, pid, *"0" * 15, str(process.start)]
        return Inode(stat.S_IFREG, 0, f"{process.pid} (python3) {' '.join(fields)}\n".encode())

    def read(self, fd: int, length: int, /) -> bytes:
        found = self.opened(fd)
        assert found.inode is not None
        if stat.S_ISFIFO(found.inode.mode):
            data, found.inode.data = found.inode.data[:length], found.inode.data[length:]
            if not data:
                raise fail(errno.EAGAIN)
            return data
        data = found.inode.data[found.offset : found.offset + length]
        found.offset += len(data)
        return data

    def write(self, fd: int, data: bytes, /) -> int:
        found, world = self.opened(fd), self._world
        assert found.inode is not None
        if stat.S_ISFIFO(found.inode.mode):
            found.inode.data += data
            if not found.is_reader:  # from another process: the reader may learn it late
                found.inode.seen_at = world.late()
            return len(data)
        self._write_disk(f"before {found.path} is written")
        most = len(data)
        if most > 1 and world.rng.random() < world.weather.short_write:
            most = world.rng.randrange(1, most)
        elif world.disk.is_full and most > 1 and found.offset + most > found.inode.reserved:
            most = world.rng.randrange(1, most)  # the last room on the disk
            world.disk.is_full = False
        count = world.disk.write(found.inode, data, found.offset, most)
        found.offset += count
        return count

    def pwrite(self, fd: int, data: bytes, offset: int, /) -> int:
        self.opened(fd).offset = offset
        return self.write(fd, data)

    def lseek(self, fd: int, position: int, whence: int, /) -> int:
        found = self.opened(fd)
        assert found.inode is not None
        found.offset = position + (len(found.inode.data) if whence == os.SEEK_END else 0)
        return found.offset

    def ftruncate(self, fd: int, length: int, /) -> None:
        found = self.opened(fd)
        assert found.inode is not None
        self._point(f"before {found.path} is cut")
        self._world.disk.truncate(found.inode, length)

    def fsync(self, fd: int, /) -> None:
        found = self.opened(fd)
        assert found.inode is not None
        self._point(f"before {found.path} is synced")
        self._world.disk.sync(found.path, found.inode)

    def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None:
        found = self.opened(fd)
        assert found.inode is not None
        self._write_disk(f"before {found.path} is allocated")
        if self._world.disk.is_full:
            raise fail(errno.ENOSPC)
        found.inode.reserved = offset + length

    def link(self, source: str, target: str, /) -> None:
        self._write_disk(f"before {target} is linked")
        self._world.disk.add(target, self._world.disk.find(source))

    def replace(self, source: str, target: str, /) -> None:
        self._write_disk(f"before {target} is replaced")
        self._world.disk.rename(source, target)

    def unlink(self, path: str, /) -> None:
        self._point(f"before {path} is removed")
        self._world.disk.remove(path)

    def mkdir(self, path: str, mode: int = 0o777, /) -> None:
        if path in self._world.disk.names:
            raise fail(errno.EEXIST, path)
        self._write_disk(f"before {path} is made")
        self._world.disk.add(path, Inode(stat.S_IFDIR | mode, self._now_ns()))

    def chmod(self, path: str, mode: int, /) -> None:
        inode = self._world.disk.find(path)
        inode.mode = stat.S_IFMT(inode.mode) | mode

    def chown(self, path: str, uid: int, gid: int, /) -> None:
        self._world.disk.find(path)

    def stat(self, path: str, /) -> Inode:
        return self._world.disk.find(path)

    def lstat(self, path: str, /) -> Inode:
        return self._world.disk.find(path)

    def mkfifo(self, path: str, mode: int, /) -> None:
        self._write_disk(f"before {path} is made")
        self._world.disk.add(path, Inode(stat.S_IFIFO | mode, self._now_ns()))

    def _now_ns(self) -> int:
        return int(self._world.clocks.wall() * 1e9)

    # --- processes -------------------------------------------------------------------------------------

    def memfd_create(self, name: str, flags: int, /) -> int:
        self._need(errno.EMFILE)
        return self._new(Opened(name, Inode(stat.S_IFREG, 0, reserved=1 << 30)))

    def posix_spawn(
        self,
        path: str,
        argv: list[str],
        env: dict[str, str],
        /,
        *,
        file_actions: Sequence[tuple[Any, ...]],
        setsid: bool,
        setsigmask: Iterable[int],
        setsigdef: Iterable[int],
    ) -> int:
        self._point("before a process is started")
        self._need(errno.EAGAIN)
        self._need(errno.ENOMEM)
        memory, output, _ = file_actions
        plan = self.opened(memory[1]).inode
        assert plan is not None
        self.close(self.open(output[2], output[3], output[4]))
        pid = self._world.spawn(marshal.loads(plan.data), self)
        self._point("after a process is started")
        return pid

    def waitpid(self, pid: int, options: int, /) -> tuple[int, int]:
        process = self._world.processes.get(pid)
        if process is None or process.parent is not self:
            raise fail(errno.ECHILD)
        if process.is_alive:
            return 0, 0
        del self._world.processes[pid]
        return pid, process.status

    def getpid(self) -> int:
        return self._pid

    def pidfd_open(self, pid: int, /) -> int:
        self._need(errno.EMFILE)
        process = self._world.processes.get(pid)
        if process is None:
            raise fail(errno.ESRCH)
        return self._new(Opened(f"process {pid}", process=process))

    def pidfd_send_signal(self, pidfd: int, number: int, /) -> None:
        process = self.opened(pidfd).process
        assert process is not None
        self._point(f"before a signal to {process.pid}")
        if not process.is_alive:
            raise fail(errno.ESRCH)
        self._world.signal(process, number)

    def epoll(self) -> SimulatedEpoll:
        self._need(errno.EMFILE)
        epoll = SimulatedEpoll(self)
        epoll.fd = self._new(Opened("epoll", epoll=epoll))
        return epoll

    # --- time, and the rest ----------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self._world.clocks.elapsed()

    def call_later(self, seconds: float, do: Callable[[], None], /) -> SimulatedTimer:
        timer = SimulatedTimer()

        def fire() -> None:
            if timer.is_alive() and not self.is_dead:
                timer.cancel()
                do()

        self._world.after(seconds, fire)
        return timer

    def free_port(self, taken: Collection[int], seed: int, /) -> int:
        self._need(errno.EMFILE)
        port = 20000 + seed % 10000
        while port in taken:
            port += 1
        return port
