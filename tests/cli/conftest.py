"""The program as a person calls it, from an empty directory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiresias.cli.main import run

TWO_JOBS = "id,submitted_at,gpus,duration_s\nlong,0,4,100\nshort,10,1,20\n"
"""On one node of 4 GPUs, first in first out makes the short job wait 90 s."""


@dataclass
class Outcome:
    """What a command left on the terminal, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Outcome]


@pytest.fixture
def tiresias(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Call `tiresias ARGS…` in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> Outcome:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["tiresias", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            run()
        written = capfd.readouterr()
        return Outcome(int(ended.value.code or 0), written.out, written.err)

    return call


@pytest.fixture
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests about what is asked for and shown: simulations of compare and sweep are this process'."""
    from tiresias.sim import experiment
    from tiresias.testing.cells import run_cells_here

    monkeypatch.setattr(experiment, "run_cells", run_cells_here)


@pytest.fixture
def two_jobs(tmp_path: Path) -> str:
    """The name of a trace file in the current directory."""
    (tmp_path / "two.csv").write_text(TWO_JOBS)
    return "two.csv"


@pytest.fixture
def outside_environment() -> dict[str, str]:
    """What a process of its own needs to find this package, and nothing that changes its output."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TERM": "xterm-256color"}
