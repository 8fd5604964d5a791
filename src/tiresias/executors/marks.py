"""The mark of a run: a variable in the environment of its workers that only the manager can compute.

If a supervisor is killed, the processes that it leaves behind are found by this mark. It is a keyed hash of
the directory and the id of the run, so that it cannot be made from what anybody can see of the run. The key
is in the directory of the executor, which only the user of the manager can read.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tiresias.executors import run_files
from tiresias.executors.base import RunSpec
from tiresias.executors.kernel import KERNEL, read_all, write_all

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel

NAME = "TIRESIAS_RUN_MARK"
KEY = "mark.key"
KEY_BYTES = 32


class Marks:
    """The marks of the runs of one executor, whose directory is `root`."""

    def __init__(self, root: Path, kernel: Kernel = KERNEL):
        self._path, self._kernel = str(root / KEY), kernel
        self._key = _read(self._path, kernel) or _make(self._path, kernel)

    def of(self, spec: RunSpec) -> list[bytes]:
        """The `NAME=value` in the environment of the workers of this run."""
        if self._is_older_than_the_key(spec):
            return [b"TIRESIAS_RUN_ID=%d" % spec.run_id, b"TIRESIAS_RUN_DIR=" + os.fsencode(spec.job_dir)]
        return [f"{NAME}={self._value(spec)}".encode()]

    def added(self, spec: RunSpec, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of a worker, with the mark of the run."""
        return {**env, NAME: self._value(spec)}

    def _value(self, spec: RunSpec) -> str:
        text = b"%d\0" % spec.run_id + os.fsencode(spec.run_dir)
        return hmac.digest(self._key, text, "sha256").hex()[:32]

    def _is_older_than_the_key(self, spec: RunSpec) -> bool:
        """Whether the run was started by version 0.1.0, which knew no key."""
        try:
            claimed = self._kernel.lstat(str(spec.part_dir / run_files.CLAIM)).st_mtime_ns
            return claimed < self._kernel.lstat(self._path).st_mtime_ns
        except OSError:
            return False


def _read(path: str, kernel: Kernel) -> bytes:
    try:
        key = read_all(path, kernel)
    except FileNotFoundError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def _make(path: str, kernel: Kernel) -> bytes:
    key = os.urandom(KEY_BYTES)
    temporary = f"{path}.{kernel.getpid()}"
    with suppress(FileNotFoundError):
        kernel.unlink(temporary)
    fd = kernel.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, key, kernel)
    finally:
        kernel.close(fd)
    kernel.replace(temporary, path)
    return key
