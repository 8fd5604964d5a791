"""Trainings with real frameworks under a real manager, and jobs that compete with them for its GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiresias.api.client import Client
from tiresias.testing.executors import processes_of

SCRIPTS = Path(__file__).parent / "scripts"
PROGRAM = [sys.executable, "-m", "tiresias.cli.main"]
DEADLINE_S = 300.0  # for whatever must happen: the machine may be very busy
UNLIMITED = 10**9
GPUS = 2


def eventually(is_so: Callable[[], Any], what: str) -> Any:
    """What it returns, as soon as that is true."""
    ends_at = time.monotonic() + DEADLINE_S
    while not (found := is_so()):
        assert time.monotonic() < ends_at, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.02)
    return found


def clean_environment() -> dict[str, str]:
    """Nothing of ours, and one thread per process."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}
    return kept | offline | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class Training:
    """A script in a directory of its own: as a job, or by itself."""

    directory: Path
    script: str
    options: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in SCRIPTS.glob("*.py"):
            shutil.copy(path, self.directory)
        for name, text in self.files.items():
            (self.directory / name).write_text(text)
        self.allow(UNLIMITED)

    def allow(self, steps: int) -> None:
        """How many steps it may begin, all runs together."""
        fresh = self.directory / ".allowed"
        fresh.write_text(str(steps))
        fresh.replace(self.directory / "allowed")

    def trained(self, rank: int = 0) -> int:
        """The number of steps that all runs together have begun."""
        path = self.directory / f"trained-{rank}"
        return path.stat().st_size if path.exists() else 0

    def command(self, python: str) -> list[str]:
        return [python, *self.launcher, self.script, *self.options]

    def run_alone(self, python: str) -> str:
        """Run it to its end without Tiresias; what it prints."""
        env = clean_environment()
        done = subprocess.run(
            self.command(python),
            cwd=self.directory,
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout


class Bench:
    """A manager with two fake GPUs, and jobs of a higher priority that preempt others."""

    def __init__(self, home: Path, python: str) -> None:
        self.home, self.python = home, python
        self.tir("up", "--fake-gpus", str(GPUS))
        self.client = Client(home)

    def tir(self, *args: str, cwd: Path | None = None, **more: str) -> str:
        env = clean_environment() | {"TIRESIAS_HOME": str(self.home)} | more
        command = [*PROGRAM, *args]
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, training: Training, *options: str, **env: str) -> int:
        words = ("submit", "-q", "-g", str(GPUS), *options, "--", *training.command(self.python))
        return int(self.tir(*words, cwd=training.directory, **env))

    def phase(self, id: int) -> str:
        phase: str = self.client.job(id)["summary"]["phase"]
        return phase

    def runs(self, id: int) -> int:
        runs: int = self.client.job(id)["summary"]["runs"]
        return runs

    def log(self, id: int) -> str:
        paths = sorted(self.run_dirs(id), key=lambda path: int(path.name))
        return "".join(
            (path / "worker-0.log").read_text() for path in paths if (path / "worker-0.log").exists()
        )

    def run_dirs(self, id: int) -> list[Path]:
        return list((self.home / "jobs" / str(id) / "runs").glob("*"))

    def preempt(self, id: int, training: Training, after: int, until: int) -> None:
        """Let the job train `after` steps in all, let another job take its GPUs, and allow further steps."""
        run = self.runs(id)
        eventually(lambda: training.trained() >= after or self.ended(id), f"step {after}")
        assert training.trained() >= after, self.log(id)[-4000:]
        eventually(lambda: self.runs(id) > 0, "a run")
        run = self.runs(id)
        other = int(self.tir("submit", "-q", "-g", str(GPUS), "--priority", "high", "--", "true"))
        asked = self.home / "jobs" / str(id) / "runs" / str(run) / "job" / "stop"
        eventually(asked.exists, "the request to stop")
        training.allow(until)
        eventually(lambda: self.phase(other) == "SUCCEEDED", "the other job")

    def preempted_often(self, id: int, training: Training, times: int, every: int) -> None:
        """Preempt it so often, each time after so many further steps; then let it train to its end."""
        for nth in range(1, times + 1):
            is_last = nth == times
            self.preempt(id, training, nth * every, UNLIMITED if is_last else (nth + 1) * every)
        self.succeeded(id)
        assert self.runs(id) == times + 1, self.log(id)

    def ended(self, id: int) -> bool:
        return self.phase(id) in ("SUCCEEDED", "FAILED", "CANCELLED")

    def succeeded(self, id: int) -> None:
        eventually(lambda: self.ended(id), "the end of the job")
        assert self.phase(id) == "SUCCEEDED", self.log(id)[-6000:]

    def close(self) -> None:
        self.client.close()
        subprocess.run(
            [*PROGRAM, "down", "--stop-jobs"],
            env=clean_environment() | {"TIRESIAS_HOME": str(self.home)},
            capture_output=True,
            timeout=DEADLINE_S,
        )
        for pid in processes_of(self.home):
            os.kill(pid, signal.SIGKILL)
