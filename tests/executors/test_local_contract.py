"""The local executor satisfies the contract of executors, with cgroups and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiresias.executors import cgroup_parent
from tiresias.executors.base import Executor
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import ExecutorContract

FOUND = cgroup_parent.find()


class TestLocal(ExecutorContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = LocalExecutor(root, linger_s=0.2, cgroups=CgroupParent(None))
        yield executor
        executor.close()


@pytest.mark.skipif(FOUND.path is None, reason=f"no cgroups: {FOUND.reason}")
class TestLocalWithCgroups(ExecutorContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = LocalExecutor(root, linger_s=0.2, cgroups=FOUND)
        yield executor
        executor.close()
