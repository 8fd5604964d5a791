"""A real manager in a process of its own, on fake GPUs, as `tir up` starts it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.api.client import Client

DEADLINE_S = 60.0  # for whatever must happen at once; the machine may be busy
ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


class Server:
    def __init__(self, home: Path, *, descriptors: int | None = None, **options: Any):
        self.home = home
        self._descriptors = descriptors
        self.options = {"fake_gpus": 2, **options}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """Returns when it answers."""
        self.spawn()
        eventually(lambda: self.about is not None or self._ended())
        assert self.process is not None
        if (about := self.about) is None or about["pid"] != self.process.pid:
            raise AssertionError(self.log())
        return self

    def spawn(self) -> subprocess.Popen[bytes]:
        self.home.mkdir(exist_ok=True)
        (self.home / "manager.json").unlink(missing_ok=True)
        (self.home / "options.json").write_text(json.dumps(self.options))
        with (self.home / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                serve_command(self.home), stderr=errors, preexec_fn=self._limit_descriptors
            )
        return self.process

    def _limit_descriptors(self) -> None:
        if self._descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))

    def _ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def about(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.home / "manager.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def log(self) -> str:
        paths = (self.home / "manager.log", self.home / "stderr")
        return "\n".join(path.read_text() for path in paths if path.exists())

    def client(self, token: str | None = None) -> Client:
        """Over the Unix socket; with a token over TCP."""
        if token is None:
            return Client(self.home)
        about = self.about
        assert about is not None
        return Client(url=about["url"], token=token)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ends the manager and everything that it started."""
        assert self.process is not None
        if self.process.poll() is None:
            with self.client() as client:
                client.shutdown(stop_jobs=True)
        return self.process.wait(DEADLINE_S)

    def terminate(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)


def serve_command(home: Path) -> list[str]:
    return [sys.executable, "-m", "tiresias.api.serve", "--home", str(home)]


def job(*command: str, **more: Any) -> dict[str, Any]:
    """A job as the API takes it; by default a program that does nothing."""
    always = {"cwd": "/", "env": ENV, "grace_s": 1.0, "retries": 0}
    return {"command": list(command or ("true",)), **always, **more}


def python(text: str, **more: Any) -> dict[str, Any]:
    return job(sys.executable, "-u", "-c", text, **more)


def eventually(is_so: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """What it returns, as soon as that is true."""
    ends_at = time.monotonic() + deadline_s
    while not (found := is_so()):
        if time.monotonic() > ends_at:
            raise AssertionError(f"not so within {deadline_s} s")
        time.sleep(0.02)
    return found


def phase(client: Client, id: int) -> str:
    found: str = client.job(id)["summary"]["phase"]
    return found


def until_ended(client: Client, id: int) -> dict[str, Any]:
    """The job's summary once it has ended."""

    def ended() -> dict[str, Any] | None:
        summary: dict[str, Any] = client.job(id)["summary"]
        return summary if summary["finished_at"] is not None else None

    found: dict[str, Any] = eventually(ended)
    return found
