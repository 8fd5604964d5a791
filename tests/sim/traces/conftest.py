"""What the scenarios share: a trace file from its text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiresias.sim.traces import TraceError, load

Given = Callable[..., Path]


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Write a trace file and name it."""

    def write(text: str | bytes, name: str = "jobs.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def complaint() -> Callable[..., str]:
    """The message a person gets for a trace that cannot be used."""

    def read_error(path: Path | str, **options: object) -> str:
        with pytest.raises(TraceError) as caught:
            load(path, **options)  # type: ignore[arg-type]
        return str(caught.value)

    return read_error


@pytest.fixture
def data() -> Path:
    """The directory of real traces."""
    found = os.environ.get("TIRESIAS_DATA")
    if not found:
        pytest.skip("TIRESIAS_DATA is not set: it names the directory with philly.csv.gz and others")
    return Path(found)
