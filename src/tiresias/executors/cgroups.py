"""Control groups (cgroup v2): the kernel's own list of the processes of a run. Standard library only.

Every process that a worker starts is in the cgroup of its run, whatever it does to its parents, its session
or its environment, and nobody but the owner of the hierarchy can put a process in or take one out.
"""

from __future__ import annotations

import os
from sys import byteorder

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
else:
    import _signal as signal

CLONE3 = 435  # the number of the system call, on every architecture
CLONE_INTO_CGROUP = 0x200000000
CGROUP = "cgroup.json"  # in the directory of a run: which cgroup its workers are in


class Cgroup:
    """The cgroup of one run; `path` is its directory."""

    def __init__(self, path: str):
        self.path = path

    def make(self) -> None:
        """Make it and the one above, which another supervisor may be removing just now."""
        for _ in range(10):
            try:
                return os.makedirs(self.path)
            except FileNotFoundError as error:
                problem = error
        raise problem

    def pids(self) -> list[int]:
        """The living processes in it and in the cgroups below it."""
        return [int(pid) for each in self._tree() for pid in _read(each, "cgroup.procs").split()]

    def is_populated(self) -> bool:
        """Whether a process is alive in it or below it. Unlike a scan this misses none."""
        return "populated 1" in _read(self.path, "cgroup.events")

    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory; None: not counted."""
        lines = _read(self.path, "memory.events").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)

    def kill(self) -> None:
        """End all its processes at once. A process that is being forked meanwhile is ended, too."""
        try:
            _write(self.path, "cgroup.kill", "1")
        except OSError:  # a kernel before 5.14
            self.kill_frozen()

    def kill_frozen(self) -> None:
        """The same with freezing: nothing can fork while it is frozen, but everything can be killed."""
        try:
            _write(self.path, "cgroup.freeze", "1")
        except OSError:  # removed, because it was empty
            return
        for pid in self.pids():  # frozen, so these pids cannot be used again before the signal arrives
            try:  # noqa: SIM105  (contextlib would have to be loaded)
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        _write(self.path, "cgroup.freeze", "0")

    def remove(self) -> None:
        """Remove it, and the one above if no other run is in that; with a process left in it, it stays."""
        for each in (*reversed(list(self._tree())), os.path.dirname(self.path)):
            try:  # noqa: SIM105
                os.rmdir(each)
            except OSError:
                pass

    def _tree(self) -> Iterator[str]:
        for top, _, _ in os.walk(self.path):
            yield top


def enter(path: str) -> None:
    """Move this process into the cgroup. The kernel takes more than ten milliseconds for it."""
    _write(path, "cgroup.procs", "0")


def fork_into(path: str) -> int:
    """Fork with the child in the cgroup from its first instruction, which is far faster than `enter`.

    Return the pid, 0 in the child, or -1 where the kernel (before 5.7) or a filter of system calls does not
    allow it. Python is not informed, so the child must execute a program, and the parent must have one thread.
    """
    import _ctypes

    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
        # set_tid, set_tid_size, cgroup
        values = (CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, directory)
        arguments = b"".join(value.to_bytes(8, byteorder) for value in values)
        call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall")  # type: ignore[arg-type]
        return int(_ctypes.call_function(call, (CLONE3, arguments, len(arguments))))
    finally:
        os.close(directory)


def _read(path: str, name: str) -> str:
    try:
        with open(f"{path}/{name}") as file:
            return file.read()
    except OSError:  # it was removed
        return ""


def _write(path: str, name: str, text: str) -> None:
    fd = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
