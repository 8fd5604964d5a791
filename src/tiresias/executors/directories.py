"""Directories through which the jobs of other users must pass, and those on which a manager may rely."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tiresias.executors.kernel import KERNEL

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel

PASSAGE = 0o711  # others may pass through, and list nothing


def make_passage(path: Path, kernel: Kernel = KERNEL) -> None:
    """Make the directory and its missing parents, each open to pass through whatever the umask is."""
    try:
        _make_open(path, kernel)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_passage(path.parent, kernel)
        _make_open(path, kernel)  # /proc says again that nothing is there, although the parent is


def _make_open(path: Path, kernel: Kernel) -> None:
    try:
        kernel.mkdir(str(path), PASSAGE)
    except FileExistsError:
        if not stat.S_ISDIR(kernel.stat(str(path)).st_mode):  # something else is in the way
            raise
    else:
        kernel.chmod(str(path), PASSAGE)


def make(path: Path, mode: int = 0o777, kernel: Kernel = KERNEL) -> None:
    """Make one directory, unless it is there; FileExistsError if something else is in its place."""
    try:
        kernel.mkdir(str(path), mode)
    except FileExistsError:
        if not stat.S_ISDIR(kernel.stat(str(path)).st_mode):
            raise


def insecure(path: Path) -> str:
    """Why other users could replace this directory or a parent of it; empty if only root could.

    These are the rules by which sshd trusts a file, except that a directory in which everybody may write is
    accepted as a parent if it is sticky, as /tmp is: there nobody can rename what belongs to another user.
    """
    real = Path(os.path.realpath(path))
    for each in dict.fromkeys((real, *real.parents, *path.parents)):
        try:
            found = each.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid not in (0, os.geteuid()):
            return f"{each} belongs to uid {found.st_uid}; chown it to root"
        if mode & 0o022 and not (mode & stat.S_ISVTX and each != real):
            return f"{each} can be written by others (mode {mode:04o}); chmod go-w {each}"
    return ""
