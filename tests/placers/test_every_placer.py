"""The contract of placers, for every one in the registry."""

from __future__ import annotations

from typing import ClassVar

import pytest

import tiresias.placers  # noqa: F401  (for what it registers)
from tiresias.core.plugins import placers
from tiresias.testing.contracts import PlacerContract

OURS = [name for name in placers.names() if placers.get(name).__module__.startswith("tiresias.placers.")]


class TestEveryPlacer(PlacerContract):
    @pytest.fixture(autouse=True, params=OURS)
    def which(self, request: pytest.FixtureRequest) -> None:
        self.placer = request.param


class TestConsolidatedWithMoves(PlacerContract):
    placer = "consolidated"
    options: ClassVar[dict[str, str]] = {"migrations": "2"}


class TestProfileBySkew(PlacerContract):
    placer = "profile"
    options: ClassVar[dict[str, str]] = {"rule": "skew", "network": "philly", "migrations": "0"}


def test_count_and_packed_are_there() -> None:
    assert {"count", "packed"} <= set(OURS)
