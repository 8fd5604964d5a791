"""Copies of a journal: a backup while the manager writes, and the preparation of a copy to continue from.

Both use the online backup of SQLite, which copies one commit whole, its write-ahead log included. To copy the
file with `cp` would miss the log, or mix two commits.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tiresias.store import checksums, database
from tiresias.store.database import WAIT_S, check_readable, connect_reader, connect_writer, transaction
from tiresias.store.errors import StoreError, damaged, explaining
from tiresias.store.reader import Reader
from tiresias.store.tables import INSERT_JOURNAL_ID


@dataclass(slots=True, frozen=True)
class Copied:
    """What a copy contains."""

    last_seq: int
    bytes: int


def backup(journal: Path, file: Path) -> Copied:
    """Copy a journal to a new file that only its owner may read; durable on return."""
    if file.exists():
        raise StoreError(f"{file}: this file exists; name another one, or remove it first")
    part = file.with_name(f"{file.name}.part")
    try:
        with closing(connect_reader(journal)) as source:
            _copy(source, journal, part)
        with Reader(part) as found:
            last_seq, damage = found.last_seq, found.damage()
        if damage:
            raise StoreError(f"no backup was made. {damaged(journal, damage)}")
        with explaining(file, "make a backup"):
            _sync(part)
            os.link(part, file)
            _sync(file.parent)
            return Copied(last_seq, file.stat().st_size)
    finally:
        part.unlink(missing_ok=True)


def prepare(file: Path, copy: Path, *, accepts_damage: bool = False) -> str:
    """Copy a journal or a backup to `copy`, bring it up to date, give it a new id, and return that.

    With `accepts_damage`, rows that have not the values that were stored count as they are read now.

    Runs that the copy has granted keep their id. Later ones get the new one, because the journal from which
    the copy was made may have granted other runs since.
    """
    with explaining(file, "open the journal"):
        for name in (copy.name, f"{copy.name}-wal", f"{copy.name}-shm"):
            copy.with_name(name).unlink(missing_ok=True)
        uri = f"{file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)) as source:
            check_readable(source, file, database.migrations())
            _copy(source, file, copy)
    id = secrets.token_hex(16)
    with closing(connect_writer(copy, "FULL")) as connection:
        found = connection.execute("SELECT next_run_id FROM meta").fetchone()
        if found is None:
            raise StoreError(f"{file}: nothing has been stored in this journal; name another backup")
        with transaction(connection):
            if accepts_damage:
                checksums.renew(connection)
            connection.execute(INSERT_JOURNAL_ID, (found[0], id))
        connection.execute("PRAGMA journal_mode = DELETE")
    _sync(copy)
    return id


def _copy(source: sqlite3.Connection, journal: Path, to: Path) -> None:
    with explaining(to, f"copy {journal}"):
        to.unlink(missing_ok=True)
        os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(to, isolation_level=None)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems do not sync directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
