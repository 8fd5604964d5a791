"""Training processes for the tests: real interpreters with the environment that an executor sets."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tiresias

DEADLINE_S = 30.0


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition that another process makes true."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.005)


class Trainings:
    """Starts trainings in one run directory; kills those that are still running at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_dir = path / "run"
        self.run_dir.mkdir()
        self.started: list[subprocess.Popen[str]] = []

    def start(self, code: str, *, inside: bool = True, **more: str) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIRESIAS_")}
        env["PYTHONPATH"] = str(Path(tiresias.__file__).parents[1])
        if inside:
            env["TIRESIAS_RUN_DIR"] = str(self.run_dir)
            env["TIRESIAS_CHECKPOINT_DIR"] = str(self.path / "ckpt")
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**env, **more},
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def wait_for(self, name: str) -> None:
        """Wait until the training has made a file with this name in its working directory."""
        wait_until((self.path / name).exists, f"the training makes {name}")

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def trainings(tmp_path):
    made = Trainings(tmp_path)
    yield made
    made.end()
