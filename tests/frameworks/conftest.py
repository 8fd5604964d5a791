"""Needs an environment with the frameworks, in which nothing of ours is installed: `make test-frameworks`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from frameworks_bench import Bench, Training


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of the user's environment."""
    found = os.environ.get("TIRESIAS_FRAMEWORKS")
    if not found:
        pytest.skip("make test-frameworks runs it, in an environment with the frameworks")
    missing = subprocess.run([found, "-c", "import tiresias"], cwd="/", capture_output=True)
    assert b"ModuleNotFoundError" in missing.stderr, "this environment has something of ours"
    return found


@pytest.fixture(scope="session")
def bench(python, tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("h"), python)
    yield made
    made.close()


@pytest.fixture
def training(tmp_path):
    """Makes a training in a directory of its own."""

    def make(script: str, *options: str, name: str = "mine", **more) -> Training:
        return Training(Path(tmp_path / name), script, options, **more)

    return make
