"""Processes as /proc shows them. Standard library only, because every supervisor imports this.

A process is identified by its pid and its start time, never by the pid alone, because pids are reused.
Signals are sent through a pidfd that was checked after it was opened, so that no other process can get them.
"""

from __future__ import annotations

import os

from tiresias.executors.kernel import KERNEL, read_all

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable

    from tiresias.executors.kernel import Kernel
else:
    import _signal as signal

GONE = (FileNotFoundError, ProcessLookupError, PermissionError)  # for a process that has ended, or is hidden


class Process:
    """`start` is in clock ticks since boot."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, state: str, parent: int, group: int, session: int, start: int):
        self.pid = pid
        self.state = state
        self.parent = parent
        self.group = group
        self.session = session
        self.start = start

    @property
    def alive(self) -> bool:
        """False for a zombie, which holds no resources any more."""
        return self.state not in "ZX"


def boot_id(kernel: Kernel = KERNEL) -> str:
    """An identifier that changes whenever the machine boots."""
    return read_all("/proc/sys/kernel/random/boot_id", kernel).decode().strip()


def look(pid: int, kernel: Kernel = KERNEL) -> Process | None:
    """The process with this pid; None if it has ended. OSError if that cannot be found out now."""
    try:
        line = read_all(f"/proc/{pid}/stat", kernel)
    except GONE:  # it has ended, or ended while it was read
        return None
    fields = line[line.rindex(b")") + 2 :].split()  # the name in parentheses may contain anything
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def all_processes() -> list[Process]:
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [each for each in found if each is not None]


def open_pidfd(pid: int, start: int, kernel: Kernel = KERNEL) -> int | None:
    """A descriptor for exactly this process, which the caller must close; None if the process has ended.

    OSError if no descriptor is left, for example: then it is not known whether the process has ended.
    """
    try:
        pidfd = kernel.pidfd_open(pid)
    except ProcessLookupError:
        return None
    is_it = False
    try:
        process = look(pid, kernel)
        is_it = process is not None and process.alive and process.start == start
    finally:
        if not is_it:
            kernel.close(pidfd)
    return pidfd if is_it else None


def send(process: Process, number: int) -> None:
    """Send a signal to exactly this process; do nothing if it has ended or permission is denied."""
    try:
        pidfd = open_pidfd(process.pid, process.start)
    except OSError:  # no descriptor is left; the caller looks again
        return
    if pidfd is None:
        return
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        pass
    finally:
        os.close(pidfd)


def carries(pid: int, marks: Iterable[bytes]) -> bool:
    """Whether the process was started with all of these `NAME=value` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return False
    return all(mark in variables for mark in marks)


def real_uid(pid: int) -> int | None:
    """The real user id of the process; None if it has ended. A set-user-ID program does not change it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"Uid:")), None)
    except OSError:
        return None


def children() -> list[int]:
    """The pids of the children of this process, which has one thread; empty if the kernel lists none."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def newest_first() -> list[int]:
    """All pids in descending order, in which a process that was just started usually comes early."""
    return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)


def command_line(pid: int) -> list[bytes]:
    """The arguments of the process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[:-1]
    except OSError:
        return []


def descendants(of: Iterable[int], processes: list[Process]) -> set[int]:
    """The pids of all descendants of these processes."""
    children: dict[int, list[int]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.pid)
    found: set[int] = set()
    todo = list(of)
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def oom_kills() -> int:
    """The number of processes that the kernel has killed for want of memory since boot."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
