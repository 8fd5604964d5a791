"""Whether the run must stop: because of a signal, or of a file in the directory of the run.

The signal handler only sets a flag. To save inside the handler would interrupt a training step, and would
hang if the step held a lock that is needed for saving.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # typing takes longer to import than this whole package
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LOOK_EVERY_S = 0.2
"""The interval at which the file is looked for, because a network file system is slow."""


class Stop:
    """`wanted` becomes true by SIGTERM, by the file `path`, or by an assignment, and then stays true."""

    def __init__(self, path: str) -> None:
        self.wanted = False
        self._path = path
        self._look_at = 0.0
        self._is_armed = False
        self._before: Any = None

    def is_wanted(self) -> bool:
        if self.wanted:
            return True
        if not self._is_armed:
            self._arm()
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            if os.path.exists(self._path):
                self.wanted = True
        return self.wanted

    def was_wanted(self) -> bool:
        """The same without a handler being installed, and without a pause between two looks."""
        return self.wanted or os.path.exists(self._path)

    def _arm(self) -> None:
        """Install the handler of SIGTERM, which only the main thread may do; in another thread do nothing."""
        import signal
        import threading

        if threading.current_thread() is not threading.main_thread():
            return
        self._is_armed = True
        before = signal.getsignal(signal.SIGTERM)
        if before is None:
            import warnings

            text = "SIGTERM has a handler that was not installed from Python: call job.request_stop() from it"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
            return
        self._before = before
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.wanted = True
        if callable(self._before):
            self._before(signum, frame)

    def after_fork(self) -> None:
        """Restore the previous handler in a forked child, so that SIGTERM ends it as usual."""
        self._look_at = 0.0
        if self._is_armed:
            import signal

            if signal.getsignal(signal.SIGTERM) == self._on_signal:
                signal.signal(signal.SIGTERM, self._before)
        self._is_armed = False
