"""The calls to the operating system that the executor makes, as one value. Standard library only.

Everything that LocalExecutor and the files of runs want from the machine goes through a Kernel. KERNEL is the
real one. The fault simulation has another one, in which any call may fail as it may on a real machine, and in
which data that was not synced is lost with the power.
"""

from __future__ import annotations

import errno
import os
import select
import time

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any, Protocol

    class Epoll(Protocol):
        def register(self, fd: int, eventmask: int, /) -> None: ...
        def unregister(self, fd: int, /) -> None: ...
        def poll(self, timeout: float, /) -> list[tuple[int, int]]: ...
        def fileno(self) -> int: ...
        def close(self) -> None: ...

    class Status(Protocol):
        @property
        def st_mode(self) -> int: ...
        @property
        def st_mtime_ns(self) -> int: ...

    class Timer(Protocol):
        def is_alive(self) -> bool: ...
        def cancel(self) -> None: ...
        def join(self) -> None: ...

    class Kernel(Protocol):
        """The calls have the names, the arguments and the errors of module `os`."""

        def open(self, path: str, flags: int, mode: int = 0o777, /) -> int: ...
        def close(self, fd: int, /) -> None: ...
        def read(self, fd: int, length: int, /) -> bytes: ...
        def write(self, fd: int, data: bytes, /) -> int: ...
        def pwrite(self, fd: int, data: bytes, offset: int, /) -> int: ...
        def lseek(self, fd: int, position: int, whence: int, /) -> int: ...
        def ftruncate(self, fd: int, length: int, /) -> None: ...
        def fsync(self, fd: int, /) -> None: ...
        def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None: ...
        def link(self, source: str, target: str, /) -> None: ...
        def replace(self, source: str, target: str, /) -> None: ...
        def unlink(self, path: str, /) -> None: ...
        def mkdir(self, path: str, mode: int = 0o777, /) -> None: ...
        def chmod(self, path: str, mode: int, /) -> None: ...
        def chown(self, path: str, uid: int, gid: int, /) -> None: ...
        def stat(self, path: str, /) -> Status: ...
        def lstat(self, path: str, /) -> Status: ...
        def mkfifo(self, path: str, mode: int, /) -> None: ...
        def memfd_create(self, name: str, flags: int, /) -> int: ...
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
        ) -> int: ...
        def waitpid(self, pid: int, options: int, /) -> tuple[int, int]: ...
        def getpid(self) -> int: ...
        def pidfd_open(self, pid: int, /) -> int: ...
        def pidfd_send_signal(self, pidfd: int, number: int, /) -> None: ...
        def epoll(self) -> Epoll: ...
        def monotonic(self) -> float: ...

        def call_later(self, seconds: float, do: Callable[[], None], /) -> Timer:
            """Call `do` after a while, in another thread."""

        def free_port(self, taken: Collection[int], seed: int, /) -> int: ...

else:
    import _signal as signal


class RealKernel:
    open = staticmethod(os.open)
    close = staticmethod(os.close)
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    pwrite = staticmethod(os.pwrite)
    lseek = staticmethod(os.lseek)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    posix_fallocate = staticmethod(os.posix_fallocate)
    link = staticmethod(os.link)
    replace = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    chmod = staticmethod(os.chmod)
    chown = staticmethod(os.chown)
    stat = staticmethod(os.stat)
    lstat = staticmethod(os.lstat)
    mkfifo = staticmethod(os.mkfifo)
    memfd_create = staticmethod(os.memfd_create)
    posix_spawn = staticmethod(os.posix_spawn)
    waitpid = staticmethod(os.waitpid)
    getpid = staticmethod(os.getpid)
    pidfd_open = staticmethod(os.pidfd_open)
    pidfd_send_signal = staticmethod(signal.pidfd_send_signal)
    epoll = staticmethod(select.epoll)
    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def call_later(seconds: float, do: Callable[[], None], /) -> Timer:
        import threading  # here, because supervisors load this module

        timer = threading.Timer(seconds, do)
        timer.daemon = True
        timer.start()
        return timer

    @staticmethod
    def free_port(taken: Collection[int], seed: int, /) -> int:
        from tiresias.executors.ports import free_port

        return free_port(taken, seed)


KERNEL: Kernel = RealKernel()

READ_BYTES = 65536
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # later the same call may succeed


def read_all(path: str, kernel: Kernel = KERNEL) -> bytes:
    """The whole content of a file."""
    fd = kernel.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := kernel.read(fd, READ_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        kernel.close(fd)


def write_all(fd: int, data: bytes, kernel: Kernel = KERNEL) -> None:
    """Write all of the data. One call may write less, as it does on a disk that is nearly full."""
    while data:
        count = kernel.write(fd, data)
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = data[count:]


def exists(path: str, kernel: Kernel = KERNEL) -> bool:
    """Whether there is something with this name, be it a link that leads nowhere."""
    try:
        kernel.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
