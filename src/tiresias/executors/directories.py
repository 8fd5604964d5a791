"""Directories through which the jobs of other users must pass, and those on which a manager may rely."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PASSAGE = 0o711  # others may pass through, and list nothing


def make_passage(path: Path) -> None:
    """Make the directory and its missing parents, each open to pass through whatever the umask is."""
    try:
        os.mkdir(path, PASSAGE)
    except FileNotFoundError:
        make_passage(path.parent)
        make_passage(path)
    except FileExistsError:
        if not path.is_dir():  # something else is in the way
            raise
    else:
        os.chmod(path, PASSAGE)


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
