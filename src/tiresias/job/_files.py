"""Atomic replacement of files: whatever happens, a file is either the old one or the new one."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # typing takes longer to import than this whole package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from ._newest import Newest

LEFT_BEHIND_AFTER_S = 600.0


def save(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], newest: Newest | None = None
) -> None:
    """Call `write` with a new binary file, then replace the file at `path` by it.

    When this returns, the new file is on disk. A process that is killed before leaves the old file as it was.
    If `path` is a symbolic link, the file to which it points is replaced. A run that is not the newest one of
    its job (`newest`) replaces nothing.
    """
    target = os.path.realpath(os.fspath(path))
    directory, name = os.path.split(target)
    os.makedirs(directory, exist_ok=True)
    remove_left_behind(directory, name, newest)
    run = newest.mark if newest is not None else ""
    part = os.path.join(directory, f".{name}.{run}{os.getpid()}.{time.monotonic_ns()}.part")
    try:
        with open(part, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if newest is not None:
            newest.check(target)
        os.replace(part, target)
    except BaseException:
        remove(part)
        raise
    sync_directory(directory)


def remove_left_behind(directory: str, name: str, newest: Newest | None = None) -> None:
    """Remove old temporary files of processes that were killed while they saved this file.

    Those of earlier runs of the job are removed whatever their age: a process of such a run that went to
    sleep just before it would replace the file finds nothing to replace it with when it wakes.
    """
    oldest = time.time() - LEFT_BEHIND_AFTER_S
    with os.scandir(directory) as entries:
        parts = [
            each for each in entries if each.name.startswith(f".{name}.") and each.name.endswith(".part")
        ]
    for part in parts:
        try:
            is_earlier = newest is not None and newest.is_earlier(part.name[len(name) + 2 :])
            if is_earlier or part.stat(follow_symlinks=False).st_mtime < oldest:
                os.remove(part.path)
        except FileNotFoundError:  # another process has removed it
            continue


def remove(path: str) -> None:
    try:
        os.remove(path)
    except FileNotFoundError:
        return


def sync_directory(directory: str) -> None:
    """Make a rename durable."""
    import errno

    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not support it
            raise
    finally:
        os.close(file)
