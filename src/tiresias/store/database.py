"""The SQLite file: connections, transactions, and the numbered migrations of the schema.

`PRAGMA user_version` is the number of the last migration that was applied. A migration and its number are
written in one transaction, so a file is never between two versions. A file of a later version than this code
knows is refused before anything is changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tiresias.store.checksums import register
from tiresias.store.errors import StoreError, explaining

APPLICATION_ID = 0x54697265  # "Tire"
SYNCHRONOUS = ("FULL", "NORMAL", "OFF")
WAL_BYTES = 64 * 2**20  # the size to which the write-ahead log is cut after a large commit
WAIT_S = 10.0  # for a lock of a reader that delays a checkpoint, or of a tool that copies the file


@cache
def migrations() -> tuple[str, ...]:
    """The SQL of every version in order. Cached, because every new connection needs it."""
    found = sorted(Path(__file__).with_name("schema").glob("*.sql"), key=lambda path: path.name)
    numbers = [int(path.name.split("_")[0]) for path in found]
    assert numbers == list(range(1, len(found) + 1)), ("migrations are numbered without gaps", numbers)
    return tuple(path.read_text(encoding="utf-8") for path in found)


def connect_writer(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection that may write, in WAL mode, to a file that is migrated to the current version."""
    if synchronous not in SYNCHRONOUS:
        raise StoreError(f"{path}: synchronous={synchronous!r} is not one of {', '.join(SYNCHRONOUS)}")
    is_new = not path.exists()
    with explaining(path, "open the journal"):
        keep_private(path)
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            check_readable(connection, path, migrations())
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(
                    f"{path}: this file system does not allow write-ahead logging (SQLite offers {mode!r});"
                    " keep the home on a local disk"
                )
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA cache_size = -16384")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            register(connection)
            migrate(connection, path, migrations())
            if is_new:
                _sync_directory(path.parent)
        except BaseException:
            connection.close()
            raise
    return connection


def keep_private(path: Path) -> None:
    """Make the file readable by its owner only, because it contains the environments of jobs.

    SQLite creates the files beside it with the permissions of the file itself.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            os.chmod(path.with_name(name), 0o600)


def connect_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection, for any thread, that can be used while another process writes."""
    with explaining(path, "open the journal"):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(
            uri, uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            register(connection)
            known = migrations()
            version = check_readable(connection, path, known)
            if version < len(known):
                raise StoreError(
                    f"{path}: the journal has version {version}, and this Tiresias reads"
                    f" version {len(known)}; start the manager once, which brings it up to date"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def check_readable(connection: sqlite3.Connection, path: Path, known: Sequence[str]) -> int:
    """The version of the file. Raises StoreError if it is not a journal, or of a later version."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (owner or version or tables):
        raise StoreError(
            f"{path}: this SQLite file is not a journal of Tiresias; put it aside, or choose another home"
            " with TIRESIAS_HOME"
        )
    if version > len(known):
        raise StoreError(
            f"{path}: the journal has version {version}, written by a later Tiresias; this one knows versions"
            f" up to {len(known)}. Install the later Tiresias again, or choose another home with"
            " TIRESIAS_HOME; nothing was changed"
        )
    return version


def migrate(connection: sqlite3.Connection, path: Path, known: Sequence[str]) -> None:
    """Apply the migrations that the file lacks, each in a transaction of its own."""
    version = check_readable(connection, path, known)
    for number, sql in enumerate(known[version:], start=version + 1):
        with explaining(path, f"bring the journal to version {number}"), transaction(connection):
            apply(connection, sql)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")


def apply(connection: sqlite3.Connection, sql: str) -> None:
    """Execute the statements of one migration."""
    for statement in _statements(sql):
        connection.execute(statement)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or roll all of it back. It is durable when the block has ended."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have rolled back already
            connection.execute("ROLLBACK")
        raise


def _statements(sql: str) -> Iterator[str]:
    """Split a script into statements, because executescript would commit the transaction."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
