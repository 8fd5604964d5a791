"""Needs Chromium and Playwright: `make test-browser`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))

from browser_lab import FLAGS, Lab, chromium, missing


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if absent := missing():
        pytest.skip(absent)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def shared_lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(
        tmp_path_factory.mktemp("h"), browser, listen="127.0.0.1:0", set={"queues": "4,60"},
        settings={"fake_gpu_memory_bytes": 16 << 30},
    )  # fmt: skip
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def lab(shared_lab: Lab) -> Iterator[Lab]:
    """The manager of the file. Its jobs are cancelled after each test, and its pages must have behaved."""
    yield shared_lab
    for job in shared_lab.client.jobs():
        shared_lab.client.cancel(job["id"])
    shared_lab.check()


@pytest.fixture
def axe() -> str:
    path = Path(os.environ.get("TIRESIAS_AXE", "nowhere"))
    if not path.is_file():
        pytest.skip("axe-core is not installed: npm install axe-core")
    return path.read_text(encoding="utf-8")
