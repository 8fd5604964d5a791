"""What all tests share: repeatable property tests, real traces if there are any, an end to endless loops."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Failures of the contracts say what was compared. Here, before any test imports them.
pytest.register_assert_rewrite("tiresias.testing.executors")

# The same examples on every machine. HYPOTHESIS_PROFILE=search looks for new ones.
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=SLOW_IS_FINE
)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def real_trace() -> Callable[[str], Path]:
    """A file of real jobs by name; skips the test where it is missing."""

    def find(name: str) -> Path:
        folder = os.environ.get("TIRESIAS_DATA")
        if not folder:
            pytest.skip(f"TIRESIAS_DATA is not set: it names the directory with {name}")
        path = Path(folder) / name
        if not path.exists():
            pytest.skip(f"TIRESIAS_DATA={folder} has no {name}")
        return path

    return find


@pytest.fixture
def within() -> Callable[[float], AbstractContextManager[None]]:
    """`with within(5):` fails what would otherwise never end."""
    from tiresias.testing import limits

    return limits.within
