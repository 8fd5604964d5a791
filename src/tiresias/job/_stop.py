"""Whether Tiresias wants the GPUs back: a signal that was received, or a file that appeared.

The handler only sets a flag. To save inside a handler would interrupt a training step half way, and hangs
when the step holds a lock that saving needs.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # typing takes longer to import than all this package
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LOOK_EVERY_S = 0.2
"""How often the file is looked for: a network file system is not to be asked at every step."""


class Stop:
    """`wanted` becomes true by SIGTERM, by the file `path`, or by being set; it never becomes false again."""

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

    def _arm(self) -> None:
        """Only the main thread may set handlers; asked by another one, leave it for later."""
        import signal
        import threading

        if threading.current_thread() is not threading.main_thread():
            return
        self._is_armed = True
        before = signal.getsignal(signal.SIGTERM)
        if before is None:
            import warnings

            text = "SIGTERM has a handler that is not Python's: call job.request_stop() when it is received"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
            return
        self._before = before
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.wanted = True
        if callable(self._before):
            self._before(signum, frame)

    def after_fork(self) -> None:
        """Give a child the handler from before, else it would not die when its parent terminates it."""
        self._look_at = 0.0
        if self._is_armed:
            import signal

            if signal.getsignal(signal.SIGTERM) == self._on_signal:
                signal.signal(signal.SIGTERM, self._before)
        self._is_armed = False
