"""Taking facts of long ended jobs out of the journal, without losing the way to replay the rest.

Replay needs a whole State (a base) and every fact after it. So compaction keeps a base of the present State
(unless there is one that is young enough), picks the latest base that is old enough, and removes from before
it the facts of jobs that had ended by then, and those of no job at all (nodes, timers: they are in the base).
Facts of jobs that are still active, or were at the base, stay for their story. Submissions and notes of ended
jobs go in the order in which these ended; how far that has come is kept, so that nobody looks at them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from tiresias.store.database import transaction
from tiresias.store.statements import REPLACE_SETTING

_DELETE = """
DELETE FROM facts WHERE seq IN (
    SELECT facts.seq FROM facts LEFT JOIN history ON history.id = facts.job
    WHERE facts.seq <= ?1 AND (facts.job IS NULL OR (history.ended_seq <= ?1 AND history.ended_at < ?2))
    ORDER BY facts.seq LIMIT ?3
)"""
_NEXT = """
SELECT id, ended_seq FROM history
WHERE ended_seq > coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE key = ?2), 0)
  AND ended_seq <= (
    SELECT ended_seq FROM history WHERE ended_at < ?1 ORDER BY ended_at DESC, ended_seq DESC LIMIT 1)
ORDER BY ended_seq LIMIT ?3"""
_COME_TO = "compacted_seq"  # the setting: submissions and notes of all that ended up to this fact are gone


@dataclass(slots=True)
class Compacted:
    """How much left; `is_all` is False if the limit stopped it and another call would go on."""

    facts: int
    submissions: int
    is_all: bool


def compact(
    connection: sqlite3.Connection,
    last_seq: int,
    before_at: float,
    limit: int,
    base_every_s: float,
    write_base: Callable[[], None],
) -> Compacted:
    with transaction(connection):
        if _wants_base(connection, last_seq, base_every_s):
            write_base()
        base = connection.execute("SELECT max(seq) FROM bases WHERE at < ?", (before_at,)).fetchone()[0]
        facts = 0
        if base is not None:
            connection.execute("DELETE FROM bases WHERE seq < ?", (base,))
            connection.execute("DELETE FROM restarts WHERE seq < ?", (base,))
            facts = connection.execute(_DELETE, (base, before_at, limit)).rowcount
        over = connection.execute(_NEXT, (before_at, _COME_TO, limit)).fetchall()
        gone = 0
        for table in ("notes", "submissions"):
            rows = [(id,) for id, _ in over]
            gone = connection.executemany(f"DELETE FROM {table} WHERE job = ?", rows).rowcount if rows else 0
        if over:
            connection.execute(REPLACE_SETTING, (_COME_TO, over[-1][1]))
        keys = connection.execute(
            "DELETE FROM submission_keys WHERE key IN (SELECT key FROM submission_keys WHERE at < ? LIMIT ?)",
            (before_at, limit),
        ).rowcount
    return Compacted(facts, gone, max(facts, len(over), keys) < limit)


def _wants_base(connection: sqlite3.Connection, last_seq: int, base_every_s: float) -> bool:
    """Whether the latest State kept whole is neither that of now nor young enough: they are large."""
    latest = connection.execute("SELECT seq, at FROM bases ORDER BY seq DESC LIMIT 1").fetchone()
    if latest is None or latest[1] is None:
        return latest is None or latest[0] != last_seq
    now = connection.execute("SELECT at FROM meta").fetchone()[0]
    return bool(latest[0] != last_seq and now - latest[1] >= base_every_s)
