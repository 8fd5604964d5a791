"""The program in processes of its own, terminals, and waiting for what must come."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiresias.testing.executors import processes_of

DEADLINE_S = 60.0  # for whatever must happen at once; the machine may be busy
PROGRAM = [sys.executable, "-m", "tiresias.cli.main"]
NOT_OURS = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TIRESIAS_URL", "TIRESIAS_TOKEN")


@dataclass
class Outcome:
    """What a command left on the terminal, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def id(self) -> int:
        """The one id that `submit` printed."""
        assert self.code == 0, self.err
        return int(self.out)

    @property
    def ids(self) -> list[int]:
        assert self.code == 0, self.err
        return [int(line) for line in self.out.split()]


@dataclass
class Program:
    """`tir ARGS…` with this home."""

    home: Path
    call: Callable[..., Outcome]

    def __call__(self, *args: object) -> Outcome:
        return self.call(*args)


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TERM": "xterm-256color",
        "TIRESIAS_HOME": str(home),
    }


class Tir:
    """`tir ARGS…` as a process of its own, with this home."""

    def __init__(self, home: Path):
        self.home = home

    def __call__(self, *args: object, cwd: Path | None = None, **env: str) -> Outcome:
        done = subprocess.run(
            [*PROGRAM, *map(str, args)],
            cwd=cwd or self.home.parent,
            env=environment(self.home) | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)


def end(program: Callable[..., Outcome], home: Path) -> None:
    """Leave no manager and no run behind, not even if a test has failed half-way or the manager has died."""
    done = program("down", "--stop-jobs") if (home / "manager.json").exists() else None
    left = processes_of(home)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert done is None or done.code == 0, done
    assert not left


def wipe_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NOT_OURS:
        monkeypatch.delenv(name, raising=False)


def eventually(is_so: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """What it returns, as soon as that is true."""
    ends_at = time.monotonic() + deadline_s
    while not (found := is_so()):
        assert time.monotonic() < ends_at, f"not so within {deadline_s} s"
        time.sleep(0.02)
    return found


@dataclass
class Terminal:
    """A command that runs in a terminal of its own."""

    pid: int
    fd: int
    seen: str = ""
    code: int | None = None

    def read_until(self, pattern: str) -> str:
        """Read until the screen shows the pattern; an empty one is never seen: read to the end."""
        deadline = time.monotonic() + DEADLINE_S
        while not (pattern and re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited {DEADLINE_S} s for {pattern or 'the end'!r}: {self.seen[-2000:]}"
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:  # Linux' way to say that nobody has the terminal open
                chunk = b""
            if not chunk:
                assert not pattern, f"ended without {pattern!r}: {self.seen[-2000:]}"
                break
            self.seen += chunk.decode(errors="replace")
        return self.seen

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def exit_code(self) -> int:
        self.read_until("")
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def lines(self) -> list[str]:
        """What it shows, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen).splitlines()

    def close(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def start_in_terminal(home: Path, cwd: Path, args: Sequence[str], columns: int) -> Terminal:
    command = [*PROGRAM, *args]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    pid = os.fork()
    if pid == 0:
        try:
            os.login_tty(theirs)
            os.chdir(cwd)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # in a terminal; who runs the tests may ignore it
            os.execvpe(command[0], command, environment(home))
        finally:
            os._exit(127)
    os.close(theirs)
    return Terminal(pid, ours)
