"""Whether anybody uses an interactive run: its terminal, its processors, or what it says of itself.

A run is in use while somebody types, while something is written to its terminal, and while its processes take
more than BUSY_SHARE of a core. A run that says itself when it is in use, by changing the time of the file
ACTIVE in the directory of its job, is believed instead: a notebook server takes some processor time even if
nobody is there.

Standard library only: a supervisor imports it.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ACTIVE = "active"
BUSY_SHARE = 0.02  # of one core, by all processes of the run together
LONGEST_LOOK_S = 15.0  # between two looks
WARN_S = 300.0  # before the end, or a quarter of the limit if that is shorter


class IdleWatch:
    """`cpu_s` tells the processor time of the run so far; `touched`, whether its terminal was used since."""

    def __init__(self, limit_s: float, job_dir: str, cpu_s: Callable[[], float], touched: Callable[[], bool]):
        self.limit_s = limit_s
        self.warn_s = min(WARN_S, limit_s / 4)
        self._path = os.path.join(job_dir, ACTIVE)
        self._cpu_s, self._touched = cpu_s, touched
        now = time.monotonic()
        self._looked_at, self._cpu_before = now, 0.0
        self._active_at = now
        self._said: float | None = None
        self._every_s = min(LONGEST_LOOK_S, limit_s / 20)
        self.is_warned = False

    @property
    def wait_s(self) -> float:
        """How long until the next look."""
        return max(0.0, self._looked_at + self._every_s - time.monotonic())

    def look(self) -> str:
        """`warn` once when the end is near, `end` when the run has been idle for too long; else nothing."""
        now = time.monotonic()
        if now - self._looked_at < self._every_s:
            return ""
        used = self._cpu_s()
        is_busy = used - self._cpu_before > BUSY_SHARE * (now - self._looked_at)
        self._looked_at, self._cpu_before = now, used
        touched, said = self._touched(), self._when_said()
        if said is not None:
            is_busy, self._said = said != self._said, said
        if is_busy or touched:
            self._active_at, self.is_warned = now, False
        idle_s = now - self._active_at
        if idle_s >= self.limit_s:
            return "end"
        if idle_s >= self.limit_s - self.warn_s and not self.is_warned:
            self.is_warned = True
            return "warn"
        return ""

    def _when_said(self) -> float | None:
        try:
            return os.stat(self._path, follow_symlinks=False).st_mtime
        except OSError:
            return None


def cpu_s(pids: Iterable[int]) -> float:
    """The processor time of these processes and of the children that they have waited for, in seconds."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                line = file.read()
        except OSError:  # it has ended
            continue
        ticks += sum(map(int, line[line.rindex(b")") + 2 :].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
