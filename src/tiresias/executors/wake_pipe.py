"""The named pipe by which supervisors wake the executor, and by which it wakes itself."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel, Timer

NAME = "news"  # the name stays: supervisors that an earlier version started write to it
LOOK_AGAIN_S = 0.1


class WakePipe:
    """`fd` becomes readable when somebody writes to `path`; what is written has no meaning."""

    def __init__(self, root: Path, kernel: Kernel):
        self._kernel = kernel
        self.path = str(root / NAME)
        self.fd = self._open()
        self._timer: Timer | None = None

    def _open(self) -> int:
        kernel, path = self._kernel, self.path
        try:
            if not stat.S_ISFIFO(kernel.lstat(path).st_mode):
                kernel.unlink(path)
                kernel.mkfifo(path, 0o600)
        except FileNotFoundError:
            kernel.mkfifo(path, 0o600)
        # Opened for writing as well, so that it does not reach its end when the last supervisor closes it.
        return kernel.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # a full pipe is readable anyway
            self._kernel.write(self.fd, b"n")

    def wake_later(self) -> None:
        """Wake soon; for what no descriptor announces when it changes."""
        if self._timer is None or not self._timer.is_alive():
            self._timer = self._kernel.call_later(LOOK_AGAIN_S, self.wake)

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while len(self._kernel.read(self.fd, 65536)) == 65536:
                pass

    def end_timer(self) -> None:
        """After this nothing is written any more, unless `wake_later` is called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def close(self) -> None:
        self._kernel.close(self.fd)
