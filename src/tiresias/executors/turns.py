"""The turns of a run that shares its GPUs: it works in some slices of time, and stands still in others.

Slices are counted by the wall clock, so that the supervisors of all runs agree on them, also of several
nodes, without a word to each other or to the manager. A keeper, which is a child of the supervisor in a
session of its own, knows which processes were stopped last: if the supervisor is killed, it lets them
continue. Standard library only, because supervisors import this.
"""

from __future__ import annotations

import os
import time

from tiresias.executors import procfs, run_files
from tiresias.executors.kernel import KERNEL

TYPE_CHECKING = False  # as in supervisor.py
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable

    from tiresias.executors.kernel import Kernel
else:
    import _signal as signal

SLICE_S = 60.0
ESCAPED_S = 0.25  # between two looks whether somebody has continued what is stopped
STILL = "TtDZX"  # states in which a process computes nothing


class Turns:
    """The turns of one run, as `pace.json` says. Without that file it always works."""

    def __init__(self, run_dir: str, kernel: Kernel = KERNEL):
        self._run_dir, self._kernel = run_dir, kernel
        self.turn, self.turns, self.slice_s = 0, 1, SLICE_S
        self.are_stopped = False  # the processes of the run are stopped because it does not have the turn
        self.keeper = 0  # its pid
        self._pipe = -1
        self._known: list[procfs.Process] = []  # the processes that the keeper was told of last
        self._looked_at = 0.0  # when `has_escaped` looked at them last
        self._text = b""
        self.read()

    def read(self) -> None:
        """Read the file again; one that cannot be read, or is damaged, changes nothing."""
        try:
            found = run_files.read(self._run_dir, run_files.PACE, self._kernel)
        except OSError:
            return
        if found:
            self.turn, self.turns = int(found["turn"]), int(found["turns"])
            self.slice_s = max(0.01, float(found["slice_s"]))

    def has_changed(self) -> bool:
        """Whether the file has been written since this was last called."""
        before = self._text
        try:
            with open(os.path.join(self._run_dir, run_files.PACE), "rb") as file:
                self._text = file.read()
        except OSError:
            return False
        return self._text != before

    def may_work(self, now: float) -> bool:
        if self.turns <= 1:
            return self.turns == 1
        return int(now // self.slice_s) % self.turns == self.turn

    def wait_s(self, now: float) -> float | None:
        """Until the next slice or the next look; None: nothing changes by itself."""
        waits_s = [self.slice_s - now % self.slice_s] if self.turns > 1 else []
        if self.are_stopped:
            waits_s.append(ESCAPED_S)
        return min(waits_s, default=None)

    def stop(self, processes: Iterable[procfs.Process]) -> None:
        """Stop these processes, after the keeper has been told of them."""
        self.tell_keeper(processes)
        for process in self._known:
            procfs.send(process, signal.SIGSTOP)
        self.are_stopped, self._looked_at = True, time.monotonic()

    def tell_keeper(self, processes: Iterable[procfs.Process]) -> None:
        """These are the processes of the run that are stopped, or are about to be."""
        processes = [each for each in processes if each.pid != self.keeper]
        text = " ".join(f"{each.pid}:{each.start}" for each in processes)
        try:
            self._write(f"{text}\n".encode())
        except BrokenPipeError:  # the kernel has killed it for want of memory, for example
            self.close()
            self._write(f"{text}\n".encode())
        self._known = processes

    def _write(self, text: bytes) -> None:
        if self._pipe < 0:
            self._start_keeper()
        os.write(self._pipe, text)

    def has_escaped(self) -> bool:
        """Whether a process works that was stopped: its user may continue it. Looks at intervals only."""
        if not self.are_stopped or time.monotonic() - self._looked_at < ESCAPED_S:
            return False
        now = (procfs.look(each.pid) for each in self._known)
        found = any(
            each is not None and each.start == known.start and each.state not in STILL
            for each, known in zip(now, self._known, strict=True)
        )
        self._looked_at = time.monotonic()
        return found

    def resume(self, processes: Iterable[procfs.Process]) -> None:
        for process in processes:
            procfs.send(process, signal.SIGCONT)
        self.are_stopped = False

    def close(self) -> None:
        """Let the keeper end."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _start_keeper(self) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if pid == 0:
            os.close(writer)
            os.setsid()
            _keep(reader)
            os._exit(0)
        os.close(reader)
        self.keeper, self._pipe = pid, writer


def _keep(pipe: int) -> None:
    """Wait for the end of the supervisor, then let the processes continue that were stopped last."""
    text = b""
    while more := os.read(pipe, 65536):
        text = (text + more)[-1 << 20 :]
        lines = text.rsplit(b"\n", 2)
        text = b"\n".join(lines[-2:]) if len(lines) > 2 else text
    last = [line for line in text.split(b"\n") if line][-1:] or [b""]
    for each in last[0].split():
        pid, start = each.split(b":")
        process = procfs.look(int(pid))
        if process is not None and process.start == int(start):
            procfs.send(process, signal.SIGCONT)


def now() -> float:
    """Seconds by the clock that all supervisors share."""
    return time.time()
