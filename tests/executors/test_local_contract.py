"""The local executor satisfies the contract of executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiresias.executors.base import Executor
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import ExecutorContract


class TestLocal(ExecutorContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = LocalExecutor(root, linger_s=0.2)
        yield executor
        executor.close()
