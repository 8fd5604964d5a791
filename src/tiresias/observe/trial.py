"""A trial run: start the command with the library preloaded, watch what it sends, end it when enough is seen.

Nothing of it is left behind: whatever carries the trial's mark in its environment is ended, by its pid. The
command gets a directory for checkpoints of its own, so that a trial neither resumes a training nor leaves a
checkpoint that one would resume.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tiresias.executors import procfs
from tiresias.executors.interrupts import deferring_signals
from tiresias.executors.ports import free_port
from tiresias.observe.errors import ObserveError
from tiresias.observe.gang import Gang, gang, is_same
from tiresias.observe.records import read_all

DIRECTORY = "TIRESIAS_OBSERVE_DIR"
PRELOAD = "LD_PRELOAD"
LOOK_S = 1.0  # between two looks at what has been recorded
ASKED = 3  # flows in a look, for it is repeated
LOOK_SHARE = 10  # of the time, at most one in so many goes into looking
KILL_S = 10.0
APART = 97  # ports between those at which one trial of ours and the next begin to look for theirs
_trials = itertools.count()


@dataclass
class Trial:
    """One run of a gang under observation."""

    command: tuple[str, ...]
    records: Path  # a directory, empty
    library: Path
    workers: int = 1
    grace_s: float = 30.0  # between the signal to stop and the end
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path | None = None
    output: int | IO[str] | None = None  # where the command's standard output goes
    was_stopped: bool = False
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, iterations: int, seconds: float) -> float:
        """Until so many iterations were seen, or the time is up, or it ends; the seconds that it took."""
        began = time.monotonic()
        try:
            self.start()
            self.wait(iterations, began + seconds)
            return time.monotonic() - began
        finally:
            self.end()

    def start(self) -> None:
        port = free_port((), os.getpid() + APART * next(_trials))  # not that of one that is just starting
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for worker in range(self.workers):
            env = self.environment()
            if self.workers > 1:
                env |= shared | {"TIRESIAS_WORKER": str(worker), "TIRESIAS_WORKERS": str(self.workers)}
            try:
                with deferring_signals():  # between its start and our knowing of it
                    self.processes.append(
                        subprocess.Popen(
                            self.command,
                            env=env,
                            cwd=self.cwd,
                            stdin=subprocess.DEVNULL,
                            stdout=self.output,
                            start_new_session=True,
                        )
                    )
            except OSError as error:
                hint = "check its name, or give its full path"
                raise ObserveError(f"cannot run {self.command[0]!r}: {error.strerror}; {hint}") from None

    def environment(self) -> dict[str, str]:
        ahead = self.env.get(PRELOAD, "")
        checkpoints = self.records / "checkpoints"
        return dict(self.env) | {
            PRELOAD: f"{self.library}:{ahead}" if ahead else str(self.library),
            DIRECTORY: str(self.records),
            "TIRESIAS_CHECKPOINT_DIR": str(checkpoints),
        }

    def wait(self, iterations: int, until: float) -> None:
        """For the end of the command, of the time, or for so many iterations."""
        pause = LOOK_S
        half = (time.monotonic() + until) / 2  # a rhythm of bytes alone is believed late
        before: Gang | None = None
        while self.is_running() and (left := until - time.monotonic()) > 0:
            if self.all_ended(min(left, pause)):
                return
            began = time.monotonic()
            found = gang(read_all(self.records), ASKED)
            if found is not None and before is not None and is_same(found, before):
                is_sure = found.has_sequence or began >= half
                if is_sure and found.iterations >= iterations:
                    return
            before = found
            pause = max(LOOK_S, LOOK_SHARE * (time.monotonic() - began))

    def is_running(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def all_ended(self, seconds: float) -> bool:
        """Whether all that we started ended within that time."""
        until = time.monotonic() + seconds
        while self.is_running():
            left = until - time.monotonic()
            if left <= 0:
                return False
            _one_ends([process.pid for process in self.processes if process.poll() is None], left)
        return True

    def end(self) -> None:
        """Ask those that still run to stop, and after the grace end all that is left of the trial."""
        try:
            self.was_stopped = self.is_running()
            self.tell(signal.SIGTERM)
            self.all_ended(self.grace_s)
        finally:  # also when a second Ctrl-C says that the grace is too long
            with deferring_signals():
                self.kill()

    def kill(self) -> None:
        """End all that is left of the trial, whatever it thinks of it."""
        self.tell(signal.SIGKILL)
        until = time.monotonic() + KILL_S
        while (rest := self.rest()) and time.monotonic() < until:
            for each in rest:
                procfs.send(each, signal.SIGKILL)
            _one_ends([each.pid for each in rest], 0.1)
        for process in self.processes:
            process.wait()

    def tell(self, number: signal.Signals) -> None:
        """A signal to the groups of those that we started and that still run."""
        for process in self.processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    def rest(self) -> list[procfs.Process]:
        """What is alive and was started by the trial, its children's children included."""
        mark = [f"{DIRECTORY}={self.records}".encode()]
        return [each for each in procfs.all_processes() if each.alive and procfs.carries(each.pid, mark)]

    @property
    def failures(self) -> list[int]:
        """Exit codes of workers that failed by themselves."""
        return [] if self.was_stopped else [each.returncode for each in self.processes if each.returncode]


def _one_ends(pids: Sequence[int], seconds: float) -> None:
    """Wait until one of these processes ends, or the time is up."""
    handles = []
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
        if len(handles) == len(pids):
            select.select(handles, [], [], max(0.0, seconds))
    finally:
        for handle in handles:
            os.close(handle)
