"""Checksums of rows: SQLite has none, so that a bit that flips on the disk would be read as another value.

Each row has a checksum of its table and its values. The rows of a commit bring theirs along (`with_crc`), and
triggers of the schema compute that of every other row.
CRC-32 finds every single flipped bit, and every run of them up to 32 bits long. What lies between the rows
(pages, indexes) is checked by SQLite, and the schema is compared with that of a new journal.

The values are summed up as `in_bytes` writes them. That is what `marshal` of Python writes in its version 2,
which is many times as fast and therefore used wherever it writes the same.
"""

from __future__ import annotations

import marshal
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cache
from struct import pack
from typing import Any
from zlib import crc32

Row = tuple[Any, ...]
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
SEEDS = {table: crc32(table.encode()) for table in MEANS}
AT_START = {  # of tables that grow, what a start reads; doctor reads all rows
    "facts": "ORDER BY rowid DESC LIMIT 2000",
    "history": "ORDER BY rowid DESC LIMIT 2000",
    "runs": "WHERE exited_at IS NULL",
    "submissions": "WHERE job IN (SELECT id FROM jobs)",
    "managed": "WHERE job IN (SELECT id FROM jobs)",
    "submission_keys": "ORDER BY rowid DESC LIMIT 2000",
    "bases": "ORDER BY rowid DESC LIMIT 1",  # each is a whole State
}


def in_bytes(values: Row, version: int = 2) -> bytes:
    """The values of a row as they go into its checksum."""
    assert version == 2, ("only this version of the format", version)
    return b"(" + pack("<i", len(values)) + b"".join([_in_bytes(value) for value in values])


def _in_bytes(value: Any) -> bytes:
    if value is None:
        return b"N"
    if type(value) is float:
        return b"g" + pack("<d", value)
    if type(value) is int:
        if -(2**31) <= value < 2**31:
            return b"i" + pack("<i", value)
        digits = [abs(value) >> shift & 0x7FFF for shift in range(0, value.bit_length(), 15)]
        return b"l" + pack(f"<i{len(digits)}H", len(digits) if value > 0 else -len(digits), *digits)
    if type(value) not in (str, bytes):
        raise ValueError(f"SQLite does not return such a value: {value!r}")
    kind, data = (b"u", value.encode("utf-8", "surrogatepass")) if type(value) is str else (b"s", value)
    return kind + pack("<i", len(data)) + data


COLUMNS = (  # of all tables in one query: a start would ask for them thirty times
    "SELECT one.name, its.* FROM sqlite_master AS one, pragma_table_info(one.name) AS its"
    " WHERE one.type = 'table' ORDER BY one.name, its.cid"
)
_SAMPLE = (None, 1.5, 7, -7, 2**31, -(2**62), "text", "\u00e9\u20ac", b"bytes")
_dumps: Callable[[Row, int], bytes] = marshal.dumps
if marshal.dumps(_SAMPLE, 2) != in_bytes(_SAMPLE):
    _dumps = in_bytes


def row_crc(table: str, *values: Any) -> int:
    """The checksum of a row of this table."""
    return crc32(_dumps(values, 2), SEEDS.get(table) or crc32(table.encode()))


def _crc_of(table: str) -> Callable[..., int]:
    """`row_crc` for the rows of one table, which a start calls for thousands of them."""
    seed, dumps, crc = SEEDS[table], _dumps, crc32
    return lambda *values: crc(dumps(values, 2), seed)


def with_crc(table: str, row: Row) -> Row:
    """A row of all columns with its checksum at the end.

    The values must be of the types that SQLite returns: `real` makes them so for columns of that type.
    """
    return (*row, crc32(_dumps(row, 2), SEEDS[table]))


def real(value: float) -> float:
    """The value as SQLite returns it from a REAL column: integers become floats, and -0.0 becomes 0.0."""
    return float(value) + 0.0


def register(connection: sqlite3.Connection) -> None:
    """Every connection that writes or checks rows needs the function."""
    connection.create_function("row_crc", -1, row_crc, deterministic=True)


def damaged_rows(
    connection: sqlite3.Connection, *, is_start: bool = False, tables: Iterable[str] = tuple(MEANS)
) -> Iterator[str]:
    """Rows whose values do not have their checksum, one line each, with what depends on the row."""
    columns_of = _columns(connection)
    for table in tables:
        meaning = MEANS[table]
        columns = ", ".join(columns_of[table])
        among = f"SELECT rowid AS damaged_row, * FROM {table} {AT_START.get(table, '') if is_start else ''}"
        connection.create_function("crc_here", -1, _crc_of(table), deterministic=True)
        sql = f"SELECT damaged_row FROM ({among}) WHERE crc IS NOT crc_here({columns})"
        try:
            found = [row[0] for row in connection.execute(sql)]
        except sqlite3.DatabaseError as error:  # of values that are no text any more, also
            yield f"the table {table} cannot be read ({error})"
            continue
        for id in found:
            yield f"row {id} of the table {table} has not the values that were stored; it affects {meaning}"


def renew(connection: sqlite3.Connection) -> None:
    """Compute all checksums again, in the transaction of the caller: what is read now counts from now on."""
    columns_of = _columns(connection)
    for table in MEANS:
        columns = ", ".join(columns_of[table])
        connection.execute(f"UPDATE {table} SET crc = row_crc('{table}', {columns})")


def schema_damage(connection: sqlite3.Connection, migrations: tuple[str, ...]) -> Iterator[str]:
    """Tables, indexes and triggers that are not those of a new journal."""
    expected, found = _shape_of_new(migrations), _shape(connection)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name) and not name.startswith("sqlite_stat"):
            yield f"the definition of {name} is not the one that was stored"


@cache
def _shape_of_new(migrations: tuple[str, ...]) -> dict[str, Any]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        register(new)
        new.executescript("BEGIN;" + "\n;".join(migrations))
        return _shape(new)


def _shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """The columns of tables, and the text of indexes and triggers without comments and spaces."""
    shape: dict[str, Any] = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        shape[name] = [] if kind == "table" else re.sub(r"--.*", "", sql or "").split()
    for table, *column in connection.execute(COLUMNS):
        shape[table].append(column)
    return shape


def _columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """The names of the columns that the checksum of a row covers, by table."""
    found: dict[str, list[str]] = {}
    for table, _, name, *_ in connection.execute(COLUMNS):
        if name != "crc":
            found.setdefault(table, []).append(name)
    return found
