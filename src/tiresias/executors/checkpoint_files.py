"""The files in the checkpoint directory of a job: what a run has made or changed. Standard library only.

Files are only listed, never opened, and links are not followed: programs of users write there. A file that
the run is about to write under a temporary name (`.part`, as `job.save` does) is not saved yet.
"""

from __future__ import annotations

import os

MOST = 20_000  # files and directories that are looked at

Files = dict[str, tuple[int, int, int]]
"""By path: the inode, the size, and when it was written, in nanoseconds."""


def look(directory: str) -> Files | None:
    """The files below a directory, none if it does not exist; None if it has too many or cannot be read."""
    found: Files = {}
    waiting, seen = [directory], 0
    while waiting:
        path = waiting.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.name.endswith(".part") and (state := _state(entry)):
                        found[entry.path] = state
        except FileNotFoundError:  # it does not exist yet, or was removed meanwhile
            continue
        except OSError:
            return None
    return found


def _state(entry: os.DirEntry[str]) -> tuple[int, int, int] | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed meanwhile
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def changed(directory: str, before: Files | None) -> tuple[int | None, float]:
    """How many files were made or changed since then, and when the last of them was written (epoch seconds).

    None: that is not known.
    """
    after = None if before is None else look(directory)
    if before is None or after is None:
        return None, 0.0
    new = [state for path, state in after.items() if before.get(path) != state and state[1]]
    return len(new), max([written for _, _, written in new], default=0) / 1e9
