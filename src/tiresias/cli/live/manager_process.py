"""The process of the manager: find it, start it in the background, wait for its end.

A process is identified by its pid and its start time, never by the pid alone.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiresias.cli import errors
from tiresias.cli.errors import Stop

RECORD = "manager.json"
LOG = "manager.log"
LOOK_AGAIN_S = 0.05
LAST_LINES = 15
HOME_IS_TAKEN = 6  # the exit code of a manager whose home has another one
NODES_ARE_TAKEN = 7  # and of one whose shared folder or nodes another one has
_COMPLAINT = re.compile(r"\S+ \S+ ERROR [\w.]+: (.*)")  # an error in the manager's log


@dataclass(slots=True, frozen=True)
class Record:
    """The contents of manager.json, which a manager writes when it answers."""

    pid: int
    start: int
    socket: str
    url: str | None

    @property
    def is_alive(self) -> bool:
        from tiresias.executors import procfs

        found = procfs.look(self.pid)
        return found is not None and found.alive and found.start == self.start


def read_record(home: Path) -> Record | None:
    """The last manager of this home, running or not; None if there is no readable file."""
    try:
        body = json.loads((home / RECORD).read_text(encoding="utf-8"))
        return Record(int(body["pid"]), int(body["start"]), str(body.get("socket")), body.get("url"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def command(home: Path) -> list[str]:
    return [sys.executable, "-m", "tiresias.api.serve", "--home", str(home)]


@dataclass(slots=True)
class Started:
    """A manager that was just started; `seen` is the length of its log before."""

    process: subprocess.Popen[bytes]
    log: Path
    seen: int

    def last_lines(self) -> str:
        """Its last logged error since it was started, or else the end of its log."""
        with self.log.open("rb") as file:
            file.seek(self.seen)
            lines = file.read().decode(errors="replace").strip().splitlines()
        found = [complaint for line in lines if (complaint := _COMPLAINT.fullmatch(line))]
        if found and not any(line.startswith("Traceback") for line in lines):
            return found[-1][1]
        return "\n".join(lines[-LAST_LINES:])


def start(home: Path) -> Started:
    """Start it in a session of its own, so that it outlives the terminal; its output goes to its log."""
    log = home / LOG
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        seen = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            command(home),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd=home,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return Started(process, log, seen)


def wait_until_up(started: Started, answers: Callable[[], bool], patience_s: float) -> bool:
    """Wait until it answers; False if it ended first."""
    deadline = time.monotonic() + patience_s
    while not answers():
        code = started.process.poll()
        if code is not None and code != HOME_IS_TAKEN:
            return answers()
        if code is not None and time.monotonic() > deadline:
            return False  # another `up` has started a manager, which does not answer either
        if time.monotonic() > deadline:
            raise Stop(
                f"the manager (pid {started.process.pid}) does not answer after {patience_s:g} s; it is "
                f"still starting. See {started.log}, and `tir status`.\n{started.last_lines()}",
                errors.UNREACHABLE,
            )
        time.sleep(LOOK_AGAIN_S)
    # It is meant to outlive this command; without a code, Popen would warn that it was not waited for.
    started.process.returncode = 0
    return True


def wait_until_gone(record: Record, patience_s: float | None) -> bool:
    """Wait until the process has ended; False if it has not after `patience_s`."""
    from tiresias.executors import procfs

    pidfd = procfs.open_pidfd(record.pid, record.start)
    if pidfd is None:
        return True
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    try:
        return bool(poller.poll(None if patience_s is None else patience_s * 1000))
    finally:
        os.close(pidfd)


def wait_until_runs_end(home: Path, patience_s: float | None) -> None:
    """Wait until no process of a run of this home is left; supervisors end them without the manager."""
    from tiresias.executors import procfs

    mark = f"TIRESIAS_RUN_DIR={home}/jobs/".encode()
    deadline = None if patience_s is None else time.monotonic() + patience_s
    while left := [each.pid for each in procfs.all_processes() if _has_variable(each.pid, mark)]:
        if deadline is not None and time.monotonic() > deadline:
            raise Stop(
                f"the manager is down; {len(left)} processes of runs have not stopped yet",
                errors.TIMEOUT,
            )
        time.sleep(LOOK_AGAIN_S)


def _has_variable(pid: int, beginning: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(each.startswith(beginning) for each in file.read().split(b"\0"))
    except OSError:
        return False
