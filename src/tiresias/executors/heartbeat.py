"""The heartbeat of a run, or of one part of it, in a folder that several machines share.

A supervisor with a lease writes a number into the file `heartbeat`, a larger one each time. If it could not
for as long as the lease, because the folder or the machine is cut off, it ends its workers: so whoever sees
the number stand still for the lease and the grace of the run knows that the workers were ended, without
having reached their machine. Only the number counts, because the clocks of two machines differ.

One thread writes, because a call to a network file system may take for ever; another one, which never
touches the folder, watches the lease. At each beat the supervisor looks for `stop.json` as well, so that a
run can be stopped through the folder alone. Standard library only.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, start_new_thread

from tiresias.executors.kernel import KERNEL, read_all

TYPE_CHECKING = False  # so that a supervisor does not load typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from tiresias.executors.kernel import Kernel

FILE = "heartbeat"
DEFAULT_LEASE_S = 60.0
MOST_BEAT_S = 2.0
WIDTH = 20  # of the number, so that it is written and read as a whole


def beat_s(lease_s: float) -> float:
    """The seconds between two beats: many in a lease, so that a slow one costs no run."""
    return min(MOST_BEAT_S, lease_s / 10)


def read(directory: str, kernel: Kernel = KERNEL) -> int:
    """The number of the last beat; 0 if there was none. OSError if the folder cannot be read."""
    try:
        text = read_all(os.path.join(directory, FILE), kernel)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return int(text) if text.strip().isdigit() else 0


def write(directory: str, number: int) -> None:
    """Make this the number of the last beat. Opened each time: that is when NFS sends it to the server."""
    fd = os.open(os.path.join(directory, FILE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, b"%*d\n" % (WIDTH, number), 0)
    finally:
        os.close(fd)


class Heart:
    """Beats from `start` on. `on_beat` is called after each beat, `on_expiry` once if the lease is over."""

    def __init__(
        self, directory: str, lease_s: float, on_beat: Callable[[], None], on_expiry: Callable[[], None]
    ):
        self._directory, self._lease_s = directory, lease_s
        self._on_beat, self._on_expiry = on_beat, on_expiry
        self._number = 0
        self._last = now()
        self._expired = allocate_lock()  # taken by the thread that notices it first

    def start(self) -> None:
        """Beat once, before any worker may run; OSError if the folder cannot be written."""
        self._beat()

    def go_on(self) -> None:
        """Beat in the background until the process ends."""
        start_new_thread(self._keep_beating, ())
        start_new_thread(self._watch, ())

    def _beat(self) -> None:
        self._number += 1
        begun = now()  # whoever reads the number counts from a later instant than this
        write(self._directory, self._number)
        self._last = begun

    def _keep_beating(self) -> None:
        while True:
            time.sleep(beat_s(self._lease_s))
            if self._is_over():  # the process was paused, and must not beat as if nothing had happened
                return self._expire()
            try:
                self._beat()
                self._on_beat()
            except OSError:  # tried again; the lease goes on
                continue

    def _watch(self) -> None:
        while not self._is_over():
            time.sleep(max(0.0, self._last + self._lease_s - now()))
        self._expire()

    def _is_over(self) -> bool:
        return now() >= self._last + self._lease_s

    def _expire(self) -> None:
        if self._expired.acquire(blocking=False):
            self._on_expiry()


def now() -> float:
    """Seconds that elapse while the machine is suspended, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
