"""What tests of runs of several users share. A module may have a `bench` of its own in place of this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench, processes_of, until


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that other users may enter; those of pytest are private."""
    with TemporaryDirectory(prefix="tiresias-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def bench(directory: Path) -> Iterator[Bench]:
    """An executor whose runs may belong to any user. No process of theirs outlives the test."""
    executor = LocalExecutor(directory / "executor", linger_s=0.2)
    bench = Bench(executor, directory)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(directory), "no process of any run is left")
    executor.close()
