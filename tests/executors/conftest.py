"""Failures of the contract say what was compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tiresias.testing.executors")
