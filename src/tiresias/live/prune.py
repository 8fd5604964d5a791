"""Removing the files of jobs that ended long ago. Their rows in the journal stay.

Rules:
- Only jobs that have ended, and ended before the given instant: an ended job never runs again.
- The run directories of a job (output, progress reports) are removed, and its checkpoint directory only on
  request, and only the one in the home: a directory that a user chose is the user's.
- It reads the journal with a Reader of its own and may be called from any thread.
- The directory of the job stays, with the file PRUNED, so that readers can say what became of the output.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tiresias.core.model import JobId
from tiresias.live.home_paths import HomePaths
from tiresias.live.run_directories import job_directories
from tiresias.store import Reader

PRUNED = "pruned"  # the file that says when; its time is that of the last change


@dataclass(slots=True)
class Pruned:
    """How many jobs have lost files, and how much space that has freed."""

    jobs: int
    bytes: int
    is_dry_run: bool


def prune(
    paths: HomePaths, *, before_at: float, user: str | None, checkpoints: bool, is_dry_run: bool
) -> Pruned:
    """Remove the files of jobs that ended before this instant, of one user or (None) of all."""
    found = Pruned(0, 0, is_dry_run)
    with Reader(paths.journal) as journal:
        for id in sorted(job_directories(paths)):
            record = journal.job(JobId(id))
            if record is None or record.ended_at is None or record.ended_at >= before_at:
                continue
            if user is not None and record.job.user != user:
                continue
            folder = paths.job(JobId(id))
            targets = [folder / "runs", *([paths.checkpoint(JobId(id))] if checkpoints else [])]
            there = [each for each in targets if each.is_dir() and not each.is_symlink()]
            if not there:
                continue
            found.jobs += 1
            found.bytes += sum(map(disk_bytes, there))
            if not is_dry_run:
                for each in there:
                    shutil.rmtree(each, ignore_errors=True)
                with suppress(OSError):
                    (folder / PRUNED).touch(0o644)
    return found


def disk_bytes(top: Path) -> int:
    """What the files below a directory take on the disk; links are not followed."""
    return sum(each.lstat().st_blocks * 512 for each in _files(top))


def _files(top: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(top):
        yield from (path for name in names if (path := Path(folder, name)).exists() or path.is_symlink())
