"""What can go wrong with the store, told so that one knows what to do.

A StoreError is never half a deed: what it reports was not written, everything acknowledged before it is
still there, and the same batch may be committed again once the cause is gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(Exception):
    """The journal cannot be used as asked; the message names the file, the trouble and the way out."""


class InUse(StoreError):
    """Another manager has this journal open."""


class CodecError(StoreError):
    """Something stored, or about to be, that this version cannot write or read."""


_TROUBLE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "free some space and try again; everything acknowledged so far is safe",
    ),
    sqlite3.SQLITE_READONLY: (
        "it may not be written",
        "make the file and its directory writable for the user the manager runs as",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "see that its directory exists and can be read and written by this user",
    ),
    sqlite3.SQLITE_PERM: ("access is denied", "see that this user may read and write it"),
    sqlite3.SQLITE_NOTADB: (
        "it is not a SQLite database, or its beginning is damaged",
        "put the file aside and restore it from a copy, or choose another home",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged",
        "stop the manager, keep a copy, and try `sqlite3 FILE .recover` or restore it from a backup",
    ),
    sqlite3.SQLITE_BUSY: (
        "another process is writing to it",
        "see who has the file open, end that process, and try again",
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing failed",
        "check the space left and the health of the disk; everything acknowledged so far is safe",
    ),
}


def explained(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """The StoreError that says what a SQLite error means here."""
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    what, way_out = _TROUBLE.get(code & 0xFF, ("SQLite refused", "this is a bug of ours: please report it"))
    return StoreError(f"{path}: cannot {doing}: {what} ({name}: {error}); {way_out}")


@contextmanager
def explaining(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into StoreErrors."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path, doing) from error
    except UnicodeEncodeError as error:
        raise StoreError(f"{path}: cannot {doing}: {error.object!r} is not text; write it anew") from error
    except OSError as error:
        what = error.strerror or str(error)
        where = error.filename or path
        raise StoreError(
            f"{path}: cannot {doing}: {what} ({where}); see that the directory exists, has space left and"
            " can be written by this user"
        ) from error
