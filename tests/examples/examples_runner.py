"""Runs examples as an executor does: real processes, a signal in the middle, the next run where it was."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import tiresias

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW_STEP_S = 0.03
DEADLINE_S = 120.0
STEP = re.compile(r"step (\d+) loss (\S+)")


@dataclass
class Run:
    """What one run printed: its steps with their losses as text, and its workers' exit codes."""

    number: int
    run_dir: Path
    steps: list[tuple[int, str]] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)
    errors: str = ""


@dataclass
class Example:
    """One job: a program and its options; all runs share a checkpoint directory."""

    path: Path
    program: str
    options: list[str]
    workers: int = 1
    launcher: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)

    def run(self, sent: signal.Signals | None = None, after_step: int = 0, to: int | None = None) -> Run:
        """Run until it ends; after that step (0: when it has begun) send a signal to its workers' groups.

        `to` sends it to one worker only.
        """
        number = len(self.runs) + 1
        run = Run(number, self.path / f"run-{number}")
        run.run_dir.mkdir(parents=True)
        self.runs.append(run)
        slowly = ["--step-seconds", str(SLOW_STEP_S)] if sent else []  # not done before the signal
        processes = self.start(run, slowly)
        watchdog = threading.Timer(DEADLINE_S, kill, [processes])
        watchdog.start()
        try:
            for line in processes[0].stdout:
                if found := STEP.match(line):
                    run.steps.append((int(found[1]), found[2]))
                step = int(found[1]) if found else 0
                if sent and step >= after_step and self.all_began(run, step):
                    for process in processes if to is None else [processes[to]]:
                        os.killpg(process.pid, sent)
                    sent = None
            run.exit_codes = [process.wait(60) for process in processes]
        finally:
            watchdog.cancel()
            watchdog.join()
            kill(processes)
            processes[0].stdout.close()
        run.errors = "".join(path.read_text() for path in sorted(run.run_dir.glob("stderr-*")))
        return run

    def all_began(self, run: Run, step: int) -> bool:
        """Whether every worker is past its imports; workers that train alone say so by their reports."""
        if not step or self.workers == 1 or self.program != "train_numpy.py":
            return True
        return all((run.run_dir / f"report-{worker}.jsonl").exists() for worker in range(self.workers))

    def start(self, run: Run, more: list[str]) -> list[subprocess.Popen[str]]:
        command = self.command(port := free_port()) + more
        return [self.start_worker(run, worker, port, command) for worker in range(self.workers)]

    def start_worker(self, run: Run, worker: int, port: int, command: list[str]) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIRESIAS_")}
        env |= {
            "PYTHONPATH": str(Path(tiresias.__file__).parents[1]),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TIRESIAS_RUN_DIR": str(run.run_dir),
            "TIRESIAS_CHECKPOINT_DIR": str(self.path / "ckpt"),
            "TIRESIAS_RESUME": str(int(run.number > 1)),
            "TIRESIAS_RUN": str(run.number),
            "TIRESIAS_WORKER": str(worker),
            "TIRESIAS_WORKERS": str(self.workers),
        }
        with open(run.run_dir / f"stderr-{worker}", "wb") as errors:
            return subprocess.Popen(
                command,
                env=env,
                cwd=self.path,
                stdout=subprocess.DEVNULL if worker else subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def command(self, port: int) -> list[str]:
        launcher = [word.replace("PORT", str(port)) for word in self.launcher]
        return [sys.executable, *launcher, str(EXAMPLES / self.program), *self.options]

    @property
    def steps(self) -> list[tuple[int, str]]:
        """Every step that any run has done, in the order done."""
        return [step for run in self.runs for step in run.steps]


def kill(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
