"""What holds for executors and for gangs holds on Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray_agents import KeptTransport, RayBedLab

from tiresias.executors.base import Executor
from tiresias.executors.gang import GangExecutor
from tiresias.testing.executors import ExecutorContract
from tiresias.testing.gangs import GangContract, GangLab


@pytest.fixture(scope="module")
def kept(bed, tmp_path_factory) -> Iterator[KeptTransport]:
    made = KeptTransport(bed, tmp_path_factory.mktemp("kept"))
    yield made
    made.end()


class TestRay(ExecutorContract):
    @pytest.fixture(autouse=True)
    def with_transport(self, kept) -> None:
        self.kept, self.depth = kept, 0

    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        root.mkdir(parents=True, exist_ok=True)
        self.depth += 1
        executor = GangExecutor(self.kept, root)
        yield executor
        executor.close()
        self.depth -= 1
        if not self.depth:
            self.kept.clean(["n0"])


class TestGangsOnRay(GangContract):
    @pytest.fixture(autouse=True)
    def with_transport(self, kept) -> None:
        self.kept = kept

    @contextmanager
    def open(self, root: Path) -> Iterator[GangLab]:
        lab = RayBedLab(self.kept, root)
        yield lab
        lab.end()
