"""A disk of its own for the home of a manager, which can be filled up and emptied in an instant."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST = "2g"  # of memory, and only what is used
INODES = 1_000_000


class SmallDisk:
    """A tmpfs, mounted at `path`. `CannotMount` where this process may not mount one."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        options = f"size={MOST},nr_inodes={INODES},mode=755"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tiresias-kill", str(path)]
        if subprocess.run(mount, capture_output=True).returncode:
            raise CannotMount(f"no disk can be mounted at {path}; that needs root")

    def fill(self) -> None:
        """Make it as large as what is on it."""
        used = os.statvfs(self.path)
        self._resize(str(max(1, used.f_blocks - used.f_bfree) * used.f_bsize))  # 0 would be no limit

    def free(self) -> None:
        self._resize(MOST)

    def _resize(self, size: str) -> None:
        # It fails if more was written meanwhile; then the disk is not full this time.
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], capture_output=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)


class CannotMount(Exception):
    """The message says why."""


@contextmanager
def surroundings(top: Path) -> Iterator[tuple[Path, SmallDisk | None]]:
    """A home that jobs of other users can reach, on a disk of its own where one can be mounted."""
    os.chmod(top, 0o755)
    try:
        disk = SmallDisk(top / "disk") if os.geteuid() == 0 else None
    except CannotMount:
        disk = None
    try:
        yield (top if disk is None else disk.path) / "home", disk
    finally:
        if disk is not None:
            disk.free()
            disk.close()
