"""Real programs under the preloaded library; skipped where there is no compiler to build it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.observe.errors import ObserveError
from tiresias.observe.library import compiler, library
from tiresias.observe.records import Process, read_all

DEADLINE_S = 120.0


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The library, in a cache of its own."""
    try:
        compiler()
    except ObserveError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield library()


@pytest.fixture
def recorded(built: Path, tmp_path: Path) -> Callable[..., list[Process]]:
    """Run a Python program under the library; what its processes sent."""

    def run(program: str, *, code: int = 0, directory: str | None = None) -> list[Process]:
        records = tmp_path / "records"
        records.mkdir(exist_ok=True)
        env = dict(os.environ) | {"LD_PRELOAD": str(built), "TIRESIAS_OBSERVE_DIR": directory or str(records)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, timeout=DEADLINE_S, check=False, cwd=tmp_path
        )
        assert done.returncode == code
        return read_all(records)

    return run
