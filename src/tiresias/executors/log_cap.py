"""The cap on the output of a job: a supervisor keeps what its workers write within it.

Workers write to their log files themselves, so that no output is lost if a supervisor is killed. The
supervisor looks at the sizes of the files at intervals. If a file takes more than its share of the disk, its
middle is removed: a hole is punched that takes no space, and every offset stays valid, so that readers go on
(`tiresias.api.logtext`). The first quarter of the share and the latest half of it are kept. On a file system
without holes the file is cut after its first quarter instead.

The cap is that of the job. If the logs of its earlier runs take more than half of it, their middles are
removed first, the oldest before the others. While less than the reserve is free on the disk, each log is cut
down to LEAST_BYTES, so that a job that writes much can not use up the space that the journal needs.

Looking at intervals is enough where much is free. Where little is (`is_small`), a program could fill the disk
between two looks, so the supervisor copies its output itself (`copied_output.py`) and calls `make_room`.

Standard library only: a supervisor imports it.
"""

from __future__ import annotations

import os
import time

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
QUICK_S, SLOW_S = 0.02, 0.25  # between two looks: while much is written, and otherwise
LEAST_BYTES = 1 << 20  # of a log while the disk is nearly full
OLD_BYTES = 64 << 10  # kept at each end of the log of an earlier run
OPEN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LogCap:
    """`most_bytes` for all logs of the job (0: no cap), `reserve_bytes` that must stay free on the disk."""

    def __init__(self, run_dir: str, most_bytes: int, reserve_bytes: int):
        self._run_dir, self._most, self._reserve = run_dir, most_bytes, reserve_bytes
        self._logs: dict[int, int] = {}  # descriptor: what the file took at the last look, in bytes
        self._share = 0
        self._coming = 0  # bytes that the supervisor has copied into the logs since the last look
        self._look_after = 0  # so many of them
        self._next = 0.0  # when to look again (monotonic)

    def watch(self, paths: list[str]) -> None:
        """Begin to watch the logs of the workers, which must be open or there."""
        if not self._most:
            return
        for path in paths:
            try:
                self._logs[os.open(path, OPEN)] = 0
            except OSError:  # it is then not watched, as it would be without a cap
                continue
        if self._logs:
            rest = self._most - self._trim_earlier()
            self._share = max(rest, self._most // 2) // len(self._logs)

    @property
    def is_small(self) -> bool:
        """Whether so little is free on the disk that the output must be copied, piece by piece."""
        return bool(self._most and self._reserve) and self._free_bytes() < 2 * self._reserve

    def make_room(self, coming: int) -> None:
        """Called before so many bytes are appended to a log by the supervisor."""
        self._coming += coming
        if self._logs and self._coming > self._look_after:
            self.look(is_last=True)

    @property
    def wait_s(self) -> float | None:
        """How long to wait until the next look; None if nothing is watched."""
        return max(0.0, self._next - time.monotonic()) if self._logs else None

    def look(self, *, is_last: bool = False) -> None:
        """Remove the middle of logs that have become too long, if it is time to look."""
        if not self._logs or (time.monotonic() < self._next and not is_last):
            return
        most = min(self._share, LEAST_BYTES) if self._is_nearly_full() else self._share
        is_quick = False
        self._coming, self._look_after = 0, most // 16
        for log, before in self._logs.items():
            taken = taken_bytes(log)
            is_quick = is_quick or taken - before > most // 16
            if taken > most:
                remove_middle(log, most // 4, most // 2)
                taken = taken_bytes(log)
            self._logs[log] = taken
        self._next = time.monotonic() + (QUICK_S if is_quick or most < self._share else SLOW_S)

    def _is_nearly_full(self) -> bool:
        return bool(self._reserve) and self._free_bytes() < self._reserve

    def _free_bytes(self) -> int:
        try:
            disk = os.statvfs(self._run_dir)
        except OSError:
            return 1 << 62  # as if there were enough
        return disk.f_bavail * disk.f_frsize

    def _trim_earlier(self) -> int:
        """Make the logs of earlier runs take no more than half of the cap, as far as OLD_BYTES allow it.

        Returns what they take. They are in directories beside that of this run, which are named by numbers.
        """
        runs, own = os.path.split(self._run_dir)
        if not own.isdigit():
            return 0
        found: list[tuple[int, str]] = []
        try:
            for name in os.listdir(runs):
                if name.isdigit() and int(name) < int(own):
                    files = os.listdir(f"{runs}/{name}")
                    found += [(int(name), f"{runs}/{name}/{each}") for each in files if is_log(each)]
        except OSError:
            return 0
        found.sort()
        sizes = [_size(path) for _, path in found]
        used = sum(sizes)
        for (_, path), size in zip(found, sizes, strict=True):
            if used <= self._most // 2:
                break
            used -= size - _trimmed(path, OLD_BYTES)
        return used


def is_log(name: str) -> bool:
    return name.startswith("worker-") and name.endswith(".log")


def taken_bytes(fd: int) -> int:
    """What the file takes on the disk; holes take nothing."""
    try:
        return os.fstat(fd).st_blocks * 512
    except OSError:
        return 0


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


def _trimmed(path: str, keep_bytes: int) -> int:
    """Remove the middle of a file that nobody writes to; what the file takes then."""
    try:
        fd = os.open(path, OPEN)
    except OSError:
        return _size(path)
    try:
        remove_middle(fd, keep_bytes, keep_bytes)
        return taken_bytes(fd)
    finally:
        os.close(fd)


def remove_middle(fd: int, head_bytes: int, tail_bytes: int) -> None:
    """Keep the beginning and the end of a file; whole blocks between them no longer take space."""
    try:
        file = os.fstat(fd)
        block = max(4096, file.st_blksize)
        begin = -(-head_bytes // block) * block  # rounded up
        end = (file.st_size - tail_bytes) // block * block  # rounded down
        if end > begin and not _punch(fd, begin, end - begin):
            os.ftruncate(fd, begin)
    except OSError:
        pass


def _punch(fd: int, offset: int, length: int) -> bool:
    """Make a hole; False if this file system has none."""
    import ctypes  # only here, because loading it takes long and few jobs write so much

    mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    libc = ctypes.CDLL(None, use_errno=True)
    place, size = ctypes.c_int64(offset), ctypes.c_int64(length)
    call = getattr(libc, "fallocate64", libc.fallocate)
    return bool(call(fd, mode, place, size) == 0)
