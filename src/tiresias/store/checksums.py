"""Checksums of rows: SQLite has none, so that a bit that flips on the disk would be read as another value.

Each row has a checksum of its table and its values, which statements or the triggers of the schema store.
CRC-32 finds every single flipped bit, and every run of them up to 32 bits long. What lies between the rows
(pages, indexes) is checked by SQLite, and the schema is compared with that of a new journal.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any
from zlib import crc32

MEANS = {  # what a damaged row of each table affects
    "facts": "the history of its job and replays; jobs and runs do not depend on it",
    "jobs": "one active job: its phase, its service and its progress",
    "submissions": "the command and the environment of one job",
    "managed": "the retries and limits of one job",
    "runs": "the times and the exit record of one run",
    "history": "the figures of one job that has ended; nothing active depends on it",
    "nodes": "one node and the slots that are out of service",
    "meta": "the last instant and the last numbers",
    "policy": "the policy and what it has learned",
    "bases": "replays; jobs and runs do not depend on it",
    "restarts": "replays; jobs and runs do not depend on it",
    "submission_keys": "one idempotency key",
    "tokens": "one token, which can be revoked and created again",
    "settings": "one setting, which can be set again",
    "journal_ids": "which run directories belong to this journal",
}
AT_START = {  # of tables that grow, what a start reads; doctor reads all rows
    "facts": "ORDER BY rowid DESC LIMIT 2000",
    "history": "ORDER BY rowid DESC LIMIT 2000",
    "runs": "WHERE exited_at IS NULL",
    "submissions": "WHERE job IN (SELECT id FROM jobs)",
    "managed": "WHERE job IN (SELECT id FROM jobs)",
    "submission_keys": "ORDER BY rowid DESC LIMIT 2000",
    "bases": "WHERE 0",
}


def row_crc(*values: Any) -> int:
    """The checksum of a table name and the values of a row. `ascii` does not depend on the Python version."""
    last = values[-1]
    if type(last) is str:  # a long text, in most tables; this is the fastest way through it
        return crc32(last.encode(), crc32(ascii(values[:-1]).encode()))
    return crc32(ascii(values).encode())


def register(connection: sqlite3.Connection) -> None:
    """Every connection that writes or checks rows needs the function."""
    connection.create_function("row_crc", -1, row_crc, deterministic=True)


def damaged_rows(connection: sqlite3.Connection, *, is_start: bool = False) -> Iterator[str]:
    """Rows whose values do not have their checksum, one line each, with what depends on the row."""
    for table, meaning in MEANS.items():
        columns = ", ".join(_columns(connection, table))
        among = f"SELECT rowid AS damaged_row, * FROM {table} {AT_START.get(table, '') if is_start else ''}"
        sql = f"SELECT damaged_row FROM ({among}) WHERE crc IS NOT row_crc('{table}', {columns})"
        try:
            found = [row[0] for row in connection.execute(sql)]
        except sqlite3.DatabaseError as error:  # of values that are no text any more, also
            yield f"the table {table} cannot be read ({error})"
            continue
        for id in found:
            yield f"row {id} of the table {table} has not the values that were stored; it affects {meaning}"


def renew(connection: sqlite3.Connection) -> None:
    """Compute all checksums again, in the transaction of the caller: what is read now counts from now on."""
    for table in MEANS:
        columns = ", ".join(_columns(connection, table))
        connection.execute(f"UPDATE {table} SET crc = row_crc('{table}', {columns})")


def schema_damage(connection: sqlite3.Connection, migrations: tuple[str, ...]) -> Iterator[str]:
    """Tables, indexes and triggers that are not those of a new journal."""
    expected, found = _shape_of_new(migrations), _shape(connection)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name) and not name.startswith("sqlite_stat"):
            yield f"the definition of {name} is not the one that was stored"


@cache
def _shape_of_new(migrations: tuple[str, ...]) -> dict[str, Any]:
    from tiresias.store.database import apply

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        register(new)
        for sql in migrations:
            apply(new, sql)
        return _shape(new)


def _shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """The columns of tables, and the text of indexes and triggers without comments and spaces."""
    shape: dict[str, Any] = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind == "table":
            shape[name] = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        else:
            shape[name] = re.sub(r"--.*", "", sql or "").split()
    return shape


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "crc"]
