"""Errors of the store, with messages that name the file, the cause and the next step.

After a StoreError nothing of the failed call is stored, everything that was acknowledged before is still
there, and the same batch may be committed again when the cause is removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(Exception):
    """The journal cannot be used as requested; the message names the file, the cause and the next step."""


class InUse(StoreError):
    """Another manager has this journal open."""


class CodecError(StoreError):
    """A value that this version can neither write to nor read from the journal."""


_CAUSES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "free some space and try again; everything acknowledged so far is safe",
    ),
    sqlite3.SQLITE_READONLY: (
        "it is read-only",
        "make the file and its directory writable for the user under which the manager runs",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "check that its directory exists and that this user can read and write it",
    ),
    sqlite3.SQLITE_PERM: ("access is denied", "check that this user may read and write it"),
    sqlite3.SQLITE_NOTADB: (
        "it is not a SQLite database, or its beginning is damaged",
        "move the file away and restore a backup with `tir restore FILE`, or choose another home",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged",
        "stop the manager, keep a copy, and restore a backup with `tir restore FILE`, or try"
        " `sqlite3 FILE .recover`",
    ),
    sqlite3.SQLITE_BUSY: (
        "another process is writing to it",
        "find the process that has the file open (fuser FILE), end it, and try again",
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing failed",
        "check the space left and the health of the disk; everything acknowledged so far is safe",
    ),
}


def damaged(path: Path, found: list[str]) -> str:
    """What was found damaged in a journal, what can be saved, and the next step."""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"{path}: it is damaged: {found[0]}{more}. `tir doctor` lists all of it; everything that it does not"
        " list is intact. Keep a copy, check the disk, and restore a backup with `tir restore FILE`, or, to"
        f" continue with what can be read, use `tir restore {path} --accept-damage`"
    )


def explained(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """The StoreError for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    cause, remedy = _CAUSES.get(
        code & 0xFF, ("SQLite refused", "this is a bug of Tiresias: please report it")
    )
    return StoreError(f"{path}: cannot {doing}: {cause} ({name}: {error}); {remedy}")


@contextmanager
def explaining(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into StoreErrors."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path, doing) from error
    except UnicodeEncodeError as error:
        raise StoreError(
            f"{path}: cannot {doing}: {error.object!r} is not UTF-8 text; write it without such characters"
        ) from error
    except UnicodeDecodeError as error:  # a message of SQLite can contain a damaged name
        cause, remedy = _CAUSES[sqlite3.SQLITE_CORRUPT]
        raise StoreError(f"{path}: cannot {doing}: {cause} (a name in it is not UTF-8); {remedy}") from error
    except OSError as error:
        cause = error.strerror or str(error)
        where = error.filename or path
        raise StoreError(
            f"{path}: cannot {doing}: {cause} ({where}); check that the directory exists, has space left and"
            " can be written by this user"
        ) from error
