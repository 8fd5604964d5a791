"""The start of a supervisor process by the executor."""

from __future__ import annotations

import marshal
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tiresias
from tiresias.executors.kernel import KERNEL, write_all

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel

PACKAGES = str(Path(tiresias.__file__).resolve().parent.parent)
CODE = "import sys; sys.path.append(sys.argv[1]); from tiresias.executors.supervisor import main; main()"
RESET = [number for number in signal.valid_signals() if number not in (9, 19)]  # to what a new process has
BLOCKED = (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT)


def command_line(run_dir: str) -> list[bytes]:
    """The last arguments of a supervisor, and of its children until they execute their program."""
    return [os.fsencode(PACKAGES), os.fsencode(run_dir)]


def spawn_supervisor(run_dir: str, plan: dict[str, Any], kernel: Kernel = KERNEL) -> int:
    """Start a supervisor and return its pid. It leads a session of its own, so it outlives the manager.

    The plan is passed in anonymous memory and not in a file, because environments contain secrets. Signals
    are blocked from the start, so that a stop that arrives before Python is up stays pending. `-I -S` keeps
    the interpreter from loading what a supervisor does not need.
    """
    memory = kernel.memfd_create("plan", os.MFD_CLOEXEC)
    try:
        write_all(memory, marshal.dumps(plan), kernel)
        kernel.lseek(memory, 0, os.SEEK_SET)
        names = [run_dir, "sweep"] if plan["sweeps"] else [run_dir]  # for `ps`, and to find the process by
        log = os.path.join(run_dir, "supervisor.log")
        return kernel.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", CODE, PACKAGES, *names],
            {"LANG": "C.UTF-8"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, memory, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=BLOCKED,
            setsigdef=RESET,
        )
    finally:
        kernel.close(memory)
