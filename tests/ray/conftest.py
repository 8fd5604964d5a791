"""Needs Ray, root and network namespaces: `make test-ray`.

Where TIRESIAS_RAY is set, as `make test-ray` sets it, nothing may be missing that the machine could have: a
test that is skipped although root, iproute2 and Ray are there fails the whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from tiresias.testing.ray_bed import Bed, missing

BOXES = 4


def _missing() -> str:
    if not os.environ.get("TIRESIAS_RAY"):
        return "make test-ray runs it, in an environment with Ray"
    if not any(each.name == "ray" for each in distributions()):  # a directory of tests is called ray, too
        return "Ray is not installed"
    return missing()


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """Four boxes, each with a Ray node that has four GPUs which do not exist."""
    if lacks := _missing():
        pytest.skip(lacks)
    made = Bed(BOXES, Path(mkdtemp(prefix="tir")))  # sockets of Ray must have short paths
    try:
        made.make()
        made.start_ray()
        yield made
    finally:
        made.remove()
        rmtree(made.top, ignore_errors=True)


def pytest_sessionfinish(session, exitstatus) -> None:
    """A skip is a failure where nothing is missing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("TIRESIAS_RAY") and reporter and reporter.stats.get("skipped") and not _missing():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config) -> None:
    """The last line of `make test-ray`."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("TIRESIAS_RAY") and reporter:
        bad = [name for name in ("failed", "error") if reporter.stats.get(name)]
        counts = [f"{len(reporter.stats.get(name, ()))} {name}" for name in ("passed", *bad, "skipped")]
        print(", ".join(counts))
