"""The program as a process of its own: terminals, signals, pipes, start-up.

A terminal reports the end of its output only when no process holds it any more: reading to that end
shows that no worker was left behind.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiresias.sim import traces

PATIENCE_S = 60.0
PROGRAM = [sys.executable, "-m", "tiresias.cli.main"]
HEAVY = ("compare", "big.csv", "--cluster", "32x8", "--policies", "tiresias-l,tiresias-g,srsf", "-j", "2")


@dataclass
class Terminal:
    """A command that runs in a terminal of its own."""

    pid: int
    fd: int
    seen: str = ""

    def read_until(self, pattern: str) -> str:
        """Read until the screen shows the pattern; an empty one is never seen: read to the end."""
        deadline = time.monotonic() + PATIENCE_S
        while not (pattern and re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited {PATIENCE_S} s for {pattern or 'the end'!r}: {self.seen[-2000:]}"
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:  # Linux' way to say that nobody has the terminal open
                chunk = b""
            if not chunk:
                assert not pattern, f"ended without {pattern!r}: {self.seen[-2000:]}"
                break
            self.seen += chunk.decode(errors="replace")
        return self.seen

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def in_terminal(tmp_path: Path, outside_environment: dict[str, str]):
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        command = [*PROGRAM, *args]
        pid, fd = pty.fork()
        if pid == 0:
            try:
                os.chdir(tmp_path)
                os.execvpe(command[0], command, outside_environment | {"COLUMNS": "100"})
            finally:
                os._exit(127)
        opened.append(Terminal(pid, fd))
        return opened[-1]

    yield start
    for terminal in opened:
        os.close(terminal.fd)


@pytest.fixture(scope="module")
def big_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "big.csv"
    traces.write(traces.generate("philly-like", jobs=50_000, load=0.9, cluster_gpus=256, seed=0), path)
    return path


@pytest.fixture
def big_trace(tmp_path: Path, big_file: Path) -> None:
    """Some seconds of work for each policy."""
    (tmp_path / "big.csv").symlink_to(big_file)


def test_a_terminal_shows_jobs_done_virtual_time_and_rate(in_terminal, big_trace):
    terminal = in_terminal("simulate", "big.csv", "--cluster", "32x8")
    terminal.read_until(r"/50000\S* jobs day \d+\.\d [\d,]+ jobs/s")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.exit_code()


def test_ctrl_c_in_simulate_prints_what_was_measured(in_terminal, big_trace):
    terminal = in_terminal("simulate", "big.csv", "--cluster", "32x8")
    terminal.read_until(r"jobs day \d")
    os.write(terminal.fd, b"\x03")
    screen = terminal.read_until("")
    assert terminal.exit_code() == 130
    assert re.search(r"interrupted: [\d,]+ of 50,000 jobs had finished", screen)
    assert "completion (JCT)" in screen
    assert "Traceback" not in screen


def test_ctrl_c_in_compare_ends_every_worker(in_terminal, big_trace):
    terminal = in_terminal(*HEAVY)
    terminal.read_until(r"jobs day \d")
    os.write(terminal.fd, b"\x03")
    screen = terminal.read_until("")
    assert terminal.exit_code() == 130
    assert re.search(r"interrupted; not finished: .*srsf", screen)
    assert "Traceback" not in screen


def test_workers_end_by_themselves_when_their_parent_is_killed(in_terminal, big_trace):
    terminal = in_terminal(*HEAVY)
    terminal.read_until(r"jobs day \d")
    os.kill(terminal.pid, signal.SIGKILL)
    assert "Traceback" not in terminal.read_until("")
    assert terminal.exit_code() == -signal.SIGKILL


def test_a_killed_worker_is_a_message(in_terminal, big_trace):
    terminal = in_terminal(*HEAVY)
    terminal.read_until(r"jobs day \d")
    children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    worker = next(pid for pid, command in commands.items() if b"spawn_main" in command)
    os.kill(worker, signal.SIGKILL)
    screen = terminal.read_until("")
    assert terminal.exit_code() == 1
    assert re.search(r"Error: the process simulating \S+ on 256 GPUs was killed by SIGKILL", screen)
    assert "Traceback" not in screen


def test_a_reader_that_went_away_is_silent(tmp_path, outside_environment):
    for args in (["policies"], ["simulate", "builtin:example", "--cluster", "1x4", "--json"], ["--help"]):
        process = subprocess.Popen(
            [*PROGRAM, *args],
            cwd=tmp_path,
            env=outside_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with process.stderr:
            assert "Error" not in (said := process.stderr.read().decode()), said
            assert "Traceback" not in said
            assert "Broken pipe" not in said
        assert process.wait() in (0, 1)


def test_piped_output_has_no_colour_and_no_progress(tmp_path, outside_environment):
    done = subprocess.run(
        [*PROGRAM, "compare", "builtin:testbed-480", "--cluster", "15x4", "--policies", "fifo,srsf"],
        cwd=tmp_path,
        env=outside_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == "note: generated with seed 0\n"


def test_a_terminal_without_unicode_gets_all_the_figures(tmp_path, outside_environment):
    environment = outside_environment | {"PYTHONIOENCODING": "ascii"}
    compare = ["compare", "builtin:example", "--cluster", "1x2", "--policies", "fifo"]
    for args in (["demo", "--simulate"], compare, ["policies"]):
        done = subprocess.run(
            [*PROGRAM, *args], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.isascii()
        assert "Traceback" not in done.stderr


def test_help_imports_nothing_heavy(outside_environment):
    code = (
        "import sys\n"
        "from tiresias.cli.main import run\n"
        "sys.argv = ['tiresias', '--help']\n"
        "try:\n    run()\n"
        "finally:\n    print('|', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=outside_environment, capture_output=True, text=True
    )
    assert done.returncode == 0
    loaded = set(done.stderr.split("|")[1].split())
    assert "tiresias.cli.main" in loaded
    assert not loaded & {"polars", "matplotlib", "numpy", "rich.console", "multiprocessing", "yaml"}
