"""Managers for measurements: real processes, each with its own home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tiresias.api.client import ApiError, Client

PATIENCE_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
ENVIRONMENT = {f"SOME_VARIABLE_{n}": f"a value of usual length, such as a path {n}" for n in range(40)}


def share(values: Sequence[float], part: float) -> float:
    """A quantile: share(values, 0.99) is the p99."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class ManagerProcess:
    """`python -m tiresias.api.serve` with fake GPUs."""

    def __init__(self, home: Path, gpus: int, code: Path | None = None, **options: Any):
        """`code`: the directory with the package to run; None: that which this process has imported."""
        self.home = home
        self._environment = os.environ if code is None else {**os.environ, "PYTHONPATH": str(code)}
        (home / "options.json").write_text(json.dumps({"fake_gpus": gpus, **options}))
        self.client = Client(home)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; return the seconds until it is ready."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "tiresias.api.serve", "--home", str(self.home)]
        self.process = subprocess.Popen(command, env=self._environment)
        while time.perf_counter() < began + PATIENCE_S:
            assert self.process.poll() is None, ("it ended", self.process.returncode)
            with suppress(ApiError):
                self.client.requester.once("GET", "/readyz")
                return time.perf_counter() - began
            time.sleep(0.005)
        raise AssertionError(f"no manager within {PATIENCE_S} s")

    @property
    def url(self) -> str:
        """Where it answers over TCP, if it does."""
        return str(json.loads((self.home / "manager.json").read_text())["url"])

    def kill(self) -> None:
        assert self.process is not None
        self.client.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Shut it down with its runs."""
        assert self.process is not None
        self.client.shutdown(stop_jobs=True)
        self.client.close()
        self.process.wait(PATIENCE_S)

    def job(self, *command: str, **asked: Any) -> dict[str, Any]:
        """The body of a submission as the command line would send it, with its environment."""
        env = {"PATH": os.environ["PATH"], **ENVIRONMENT}
        return {"command": list(command), "cwd": str(self.home), "env": env, "grace_s": 1.0, **asked}

    def fill(self, jobs: int, batch: int = 100) -> list[float]:
        """Submit one job that runs for long and so many that wait; return the seconds of each batch."""
        took = []
        self.client.submit(self.job("sleep", "86400"))
        for _ in range(jobs // batch):
            bodies = [self.job("sleep", "86400") for _ in range(batch)]
            began = time.perf_counter()
            self.client.submit(bodies)
            took.append(time.perf_counter() - began)
        return took

    # --- from /proc ------------------------------------------------------------------------------------

    def memory_bytes(self) -> int:
        """Its present memory use."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def cpu_s(self) -> float:
        """Seconds of processor time so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def manager_process(gpus: int = 1, code: Path | None = None, **options: Any) -> Iterator[ManagerProcess]:
    """A running manager with an empty home; both are removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="tiresias-bench-"))
    manager = ManagerProcess(home, gpus, code, **options)
    try:
        manager.start()
        yield manager
        manager.end()
    finally:
        if manager.process is not None and manager.process.poll() is None:
            manager.kill()
        _end_runs(home)
        shutil.rmtree(home, ignore_errors=True)


def _end_runs(home: Path) -> None:
    """End the supervisors that have outlived their manager; they end their workers."""
    for claim in home.glob("jobs/*/runs/*/claim.json"):
        if not (claim.parent / "exit.json").exists():
            with suppress(OSError, ValueError, KeyError):
                os.kill(json.loads(claim.read_text())["pid"], signal.SIGTERM)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if all((each.parent / "exit.json").exists() for each in home.glob("jobs/*/runs/*/claim.json")):
            return
        time.sleep(0.05)
