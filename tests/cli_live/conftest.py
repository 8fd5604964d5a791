"""A real manager on fake GPUs, and the program as a person calls it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cli import Outcome, Program, Terminal, Tir, end, eventually, start_in_terminal, wipe_environment

from tiresias.api.client import Client
from tiresias.api.transport import ApiError
from tiresias.cli.main import run


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a manager with four fake GPUs, for all tests that leave it as they found it."""
    home = tmp_path_factory.mktemp("h")
    program = Tir(home)
    try:
        started = program("up", "--fake-gpus", "4")
        assert started.code == 0, started.err
        yield home
    finally:
        end(program, home)


@pytest.fixture
def client(shared_home: Path) -> Iterator[Client]:
    """Cancels what the test has left behind, so that the next one finds every GPU free."""
    with Client(shared_home) as made:
        yield made
        for job in made.jobs():
            with contextlib.suppress(ApiError):  # it may have ended by itself
                made.cancel(job["id"])
        eventually(lambda: not list(made.jobs()))


@pytest.fixture
def here(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Path], Program]:
    """The program in this process, which is much faster, from an empty directory, with some home."""
    wipe_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    def with_home(home: Path) -> Program:
        def call(*args: object) -> Outcome:
            capfd.readouterr()
            monkeypatch.setenv("TIRESIAS_HOME", str(home))
            monkeypatch.setattr(sys, "argv", ["tir", *map(str, args)])
            with pytest.raises(SystemExit) as ended:
                run()
            written = capfd.readouterr()
            return Outcome(int(ended.value.code or 0), written.out, written.err)

        return Program(home, call)

    return with_home


@pytest.fixture
def tir(here: Callable[[Path], Program], shared_home: Path, client: Client) -> Program:
    """`tir ARGS…` with the shared manager."""
    return here(shared_home)


@pytest.fixture
def fresh(here: Callable[[Path], Program], tmp_path: Path) -> Iterator[Program]:
    """`tir ARGS…` with a home of its own, in which nothing is yet; what it starts is ended."""
    program = here(tmp_path / "home")
    yield program
    end(program, program.home)


@pytest.fixture
def in_terminal(shared_home: Path, client: Client, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """The program in a terminal of its own, with the shared manager."""
    opened: list[Terminal] = []

    def start(*args: str, columns: int = 100) -> Terminal:
        opened.append(start_in_terminal(shared_home, tmp_path, args, columns))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()
