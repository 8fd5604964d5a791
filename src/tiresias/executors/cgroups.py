"""Control groups (cgroup v2): the kernel's own list of the processes of a run. Standard library only.

Every process that a worker starts is in the cgroup of its run, whatever it does to its parents, its session
or its environment, and nobody but the owner of the hierarchy can put a process in or take one out.

The files of cgroups are reached through a CgroupFiles, so that a test can drive the rules with a directory
tree of its own where the kernel has no such controller.
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
CPU, MEMORY = "cpu", "memory"  # the controllers that limit a run
SUBTREE = "cgroup.subtree_control"
CPU_PERIOD_US = 100_000


class CgroupFiles:
    """The directories and files of a cgroup hierarchy. The errors are those of the kernel."""

    def make(self, path: str) -> None:
        os.mkdir(path)

    def remove(self, path: str) -> None:
        os.rmdir(path)

    def read(self, path: str, name: str) -> str:
        with open(f"{path}/{name}") as file:
            return file.read()

    def write(self, path: str, name: str, text: str) -> None:
        fd = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


FILES = CgroupFiles()


def controllers_for(cpus: int | None, memory_bytes: int | None) -> list[str]:
    """The controllers that enforce these limits of a run; None: no limit."""
    return [name for name, limit in ((CPU, cpus), (MEMORY, memory_bytes)) if limit is not None]


class Cgroup:
    """The cgroup of one run; `path` is its directory."""

    def __init__(self, path: str, files: CgroupFiles = FILES):
        self.path, self._files = path, files

    def make(self, cpus: int | None = None, memory_bytes: int | None = None) -> None:
        """Make it with these limits, and the one above, which another supervisor may be removing just now.

        OSError if it cannot be made, or if a limit cannot be set: no process may then be started in it.
        """
        for _ in range(10):
            try:
                self._make(controllers_for(cpus, memory_bytes))
                break
            except FileNotFoundError as error:
                problem = error
        else:
            raise problem
        self._limit(cpus, memory_bytes)

    def _make(self, controllers: list[str]) -> None:
        above = os.path.dirname(self.path)
        try:  # noqa: SIM105  (contextlib would have to be loaded)
            self._files.make(above)
        except FileExistsError:
            pass
        if controllers:  # of this manager's runs only, so no process is in the cgroup above
            self._files.write(above, SUBTREE, " ".join(f"+{name}" for name in controllers))
        self._files.make(self.path)

    def _limit(self, cpus: int | None, memory_bytes: int | None) -> None:
        if memory_bytes is not None:
            self._files.write(self.path, "memory.max", str(memory_bytes))
            # The gang ends as a whole: what is left of it could only wait for what was killed.
            self._files.write(self.path, "memory.oom.group", "1")
            try:  # noqa: SIM105
                self._files.write(self.path, "memory.swap.max", "0")
            except FileNotFoundError:  # a kernel that does not account for swap
                pass
        if cpus is not None:
            self._files.write(self.path, "cpu.max", f"{cpus * CPU_PERIOD_US} {CPU_PERIOD_US}")

    def pids(self) -> list[int]:
        """The living processes in it and in the cgroups below it."""
        return [int(pid) for each in self._tree() for pid in self._read(each, "cgroup.procs").split()]

    def is_populated(self) -> bool:
        """Whether a process is alive in it or below it. Unlike a scan this misses none."""
        return "populated 1" in self._read(self.path, "cgroup.events")

    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory; None: not counted."""
        return self._memory_events().get("oom_kill")

    def is_over_memory(self) -> bool:
        """Whether the kernel has killed one of its processes because the cgroup had reached its own limit.

        `oom` counts how often the limit was reached and nothing could be reclaimed; it stays 0 if the memory
        of the machine was exhausted, or that of a cgroup above.
        """
        events = self._memory_events()
        return events.get("oom", 0) > 0 and events.get("oom_kill", 0) > 0

    def _memory_events(self) -> dict[str, int]:
        words = self._read(self.path, "memory.events").split()
        return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}

    def kill(self) -> None:
        """End all its processes at once. A process that is being forked meanwhile is ended, too."""
        try:
            self._files.write(self.path, "cgroup.kill", "1")
        except OSError:  # a kernel before 5.14
            self.kill_frozen()

    def kill_frozen(self) -> None:
        """The same with freezing: nothing can fork while it is frozen, but everything can be killed."""
        try:
            self._files.write(self.path, "cgroup.freeze", "1")
        except OSError:  # removed, because it was empty
            return
        for pid in self.pids():  # frozen, so these pids cannot be used again before the signal arrives
            try:  # noqa: SIM105  (contextlib would have to be loaded)
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self._files.write(self.path, "cgroup.freeze", "0")

    def remove(self) -> None:
        """Remove it, and the one above if no other run is in that; with a process left in it, it stays."""
        for each in (*reversed(list(self._tree())), os.path.dirname(self.path)):
            try:  # noqa: SIM105
                self._files.remove(each)
            except OSError:
                pass

    def _read(self, path: str, name: str) -> str:
        try:
            return self._files.read(path, name)
        except OSError:  # it was removed, or the controller is not there
            return ""

    def _tree(self) -> Iterator[str]:
        for top, _, _ in os.walk(self.path):
            yield top


def enter(path: str) -> None:
    """Move this process into the cgroup. The kernel takes more than ten milliseconds for it."""
    FILES.write(path, "cgroup.procs", "0")


def fork_into(path: str) -> int:
    """Fork with the child in the cgroup from its first instruction, which is far faster than `enter`.

    Return the pid, 0 in the child, or -1 where the kernel (before 5.7) or a filter of system calls does not
    allow it. Python is not informed: the child must execute a program, and the parent must have one thread.
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
