"""An observed run: starts the command with the library preloaded and ends it when enough has been seen.

Rules: no process is left behind. Every process with the mark of the observation in its environment is ended,
by its pid. The command gets its own directory for checkpoints, so that an observation neither resumes a
training nor leaves a checkpoint from which one would resume.
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
LOOK_S = 1.0  # seconds between two analyses of what has been recorded
DECIDING = 3  # flows that decide on the period in each of these analyses
LOOK_SHARE = 10  # at most one in so many seconds is spent on analyses
GRACE_LOOK_S = 0.05  # between two looks for a signal that ends the grace period
KILL_S = 10.0
APART = 97  # ports between those from which this process searches a free one for two observations
_trials = itertools.count()


@dataclass
class Trial:
    """One run of a gang under observation."""

    command: tuple[str, ...]
    records: Path  # an empty directory for the recorded messages
    library: Path
    workers: int = 1
    grace_s: float = 30.0  # seconds between SIGTERM and SIGKILL
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path | None = None
    output: int | IO[str] | None = None  # where the command's standard output goes
    was_stopped: bool = False
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, iterations: int, seconds: float) -> float:
        """Run until so many iterations were seen, the time is up, or it ends; return the seconds it took."""
        began = time.monotonic()
        try:
            self.start()
            self.wait(iterations, began + seconds)
            return time.monotonic() - began
        finally:
            self.end()

    def start(self) -> None:
        port = free_port((), os.getpid() + APART * next(_trials))  # not the port of one that just starts
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for worker in range(self.workers):
            env = self.environment()
            if self.workers > 1:
                env |= shared | {"TIRESIAS_WORKER": str(worker), "TIRESIAS_WORKERS": str(self.workers)}
            try:
                with deferring_signals():  # an interrupt before the process is stored would leave it running
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
        """Wait for the end of the command, for the instant `until`, or for so many iterations."""
        pause = LOOK_S
        half = (time.monotonic() + until) / 2  # a period of bytes alone is accepted only after half the time
        before: Gang | None = None
        while self.is_running() and (left := until - time.monotonic()) > 0:
            if self.all_ended(min(left, pause)):
                return
            began = time.monotonic()
            found = gang(read_all(self.records), DECIDING)
            if found is not None and before is not None and is_same(found, before):
                is_sure = found.has_sequence or began >= half
                if is_sure and found.iterations >= iterations:
                    return
            before = found
            pause = max(LOOK_S, LOOK_SHARE * (time.monotonic() - began))

    def is_running(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def all_ended(self, seconds: float) -> bool:
        """Whether all started processes ended within that time."""
        until = time.monotonic() + seconds
        while self.is_running():
            left = until - time.monotonic()
            if left <= 0:
                return False
            _one_ends([process.pid for process in self.processes if process.poll() is None], left)
        return True

    def end(self) -> None:
        """Send SIGTERM to the started processes, and after the grace period kill all that is left."""
        # A second Ctrl-C ends the grace period. It must not interrupt the killing, so it raises nothing here.
        with deferring_signals() as received:
            self.was_stopped = self.is_running()
            self.send(signal.SIGTERM)
            until = time.monotonic() + self.grace_s
            while not received and time.monotonic() < until and not self.all_ended(GRACE_LOOK_S):
                pass
            self.kill()

    def kill(self) -> None:
        """Kill all processes that are left."""
        self.send(signal.SIGKILL)
        until = time.monotonic() + KILL_S
        while (rest := self.rest()) and time.monotonic() < until:
            for each in rest:
                procfs.send(each, signal.SIGKILL)
            _one_ends([each.pid for each in rest], 0.1)
        for process in self.processes:
            process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process groups of the started processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    def rest(self) -> list[procfs.Process]:
        """The living processes that were started by this run, at any depth."""
        mark = [f"{DIRECTORY}={self.records}".encode()]
        return [each for each in procfs.all_processes() if each.alive and procfs.carries(each.pid, mark)]

    @property
    def failures(self) -> list[int]:
        """Exit codes of workers that failed without being stopped."""
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
