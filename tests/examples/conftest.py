from __future__ import annotations

import pytest
from examples_runner import Example


@pytest.fixture
def example(tmp_path):
    def make(name: str, program: str, *options: str, workers: int = 1) -> Example:
        path = tmp_path / name
        path.mkdir()
        return Example(path, program, list(options), workers)

    return make
