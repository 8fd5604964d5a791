"""Output that the supervisor copies into the log: that of a terminal, and all output on a small disk.

Usually workers write to their log files themselves, which is fast and loses nothing if the supervisor is
killed. But a program that writes as fast as it can fills a small disk between two looks at its log. So where
little is free, its output goes through a pipe: the cap is kept with every piece, and the program waits if the
supervisor is behind. What the disk does not take is dropped and counted: the program goes on. The manager has
no part in this, and a manager that is killed loses none of it.

Standard library only: a supervisor imports it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    from collections.abc import Callable

    from tiresias.executors.log_cap import LogCap

PIECE_BYTES = 1 << 18
PIPE_BYTES = 1 << 20  # the most that a process without privileges may ask for
LARGEST_TURN_BYTES = 16 * PIECE_BYTES  # are copied before the supervisor looks at anything else


class CopiedOutput:
    """Copies from `source` to the log, which stays within the cap. `on_copied` is called after a copy."""

    def __init__(self, source: int, log: int, cap: LogCap, on_copied: Callable[[], None] | None = None):
        self.source = source
        self._log, self._cap, self._on_copied = log, cap, on_copied
        self._dropped = 0
        self.is_over = False
        os.set_blocking(source, False)

    def copy(self, most_bytes: int = LARGEST_TURN_BYTES) -> int:
        """Copy what there is, up to a limit; sets `is_over` when nobody can write any more."""
        copied = 0
        while copied < most_bytes:
            try:
                data = os.read(self.source, min(PIECE_BYTES, most_bytes - copied))
            except BlockingIOError:
                break
            except OSError:  # EIO: the last process has closed the terminal
                data = b""
            if not data:
                self.is_over = True
                break
            self.add(data)
            copied += len(data)
            if len(data) < PIECE_BYTES // 4:
                break
        if self._on_copied is not None:
            self._on_copied()
        return copied

    def copy_rest(self) -> None:
        """At the end of the run: all that its processes have left, and how much the disk did not take.

        That is no more than the source holds. A process that is not of the run may have the other end open,
        as a terminal that its user writes to from elsewhere, and may write for ever.
        """
        left = _holds_bytes(self.source)
        while left > 0 and not self.is_over and (copied := self.copy(left)):
            left -= copied
        if self._dropped:
            self.add(b"\n[tiresias: the disk was full; %d bytes of output are lost]\n" % self._dropped)

    def add(self, data: bytes) -> None:
        """Append to the log."""
        self._cap.make_room(len(data))
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._log, left) :]
            except OSError:  # the disk is full; the program must not stand still because of that
                self._dropped += len(left)
                return


def make_pipe() -> tuple[int, int]:
    """A large pipe: the end of the supervisor and that of a worker."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        import fcntl

        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:  # the user has used up what pipes may hold; a small one does as well
        pass
    return reader, writer


def _holds_bytes(source: int) -> int:
    """How much can have been written to a pipe or terminal that was not read yet."""
    import fcntl

    try:
        return max(PIPE_BYTES, fcntl.fcntl(source, fcntl.F_GETPIPE_SZ))
    except OSError:  # a terminal, which holds less
        return PIPE_BYTES
