"""Compaction: facts of jobs that ended long ago are deleted, while the rest can still be replayed.

Replay needs a base (a whole State) and every fact after it. So compaction stores a base of the present State,
unless there is one that is recent enough. It then takes the latest base that is old enough, and deletes from
before it the facts of jobs that had ended by then, and the facts about no job (nodes and timers are part of
the base). Facts of jobs that are active, or were active at that base, stay, so that their history is whole.
Submissions and managed data of ended jobs are deleted in the order in which the jobs ended. A setting stores
how far that has come, so that no call starts again from the beginning.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from tiresias.store.tables import REPLACE_SETTING

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
_COMPACTED_UP_TO = "compacted_seq"  # a setting: submissions of jobs that ended up to this fact are deleted


@dataclass(slots=True)
class Compacted:
    """How many rows were deleted; `is_complete` is False if the limit was reached and more remain."""

    facts: int
    submissions: int
    is_complete: bool


def compact(
    connection: sqlite3.Connection,
    last_seq: int,
    before_at: float,
    limit: int,
    base_every_s: float,
    write_base: Callable[[], None],
) -> Compacted:
    """Delete at most `limit` rows per table, in the transaction of the caller. See `Store.compact`."""
    if _wants_base(connection, last_seq, base_every_s):
        write_base()
    base = connection.execute("SELECT max(seq) FROM bases WHERE at < ?", (before_at,)).fetchone()[0]
    facts = 0
    if base is not None:
        connection.execute("DELETE FROM bases WHERE seq < ?", (base,))
        connection.execute("DELETE FROM restarts WHERE seq < ?", (base,))
        facts = connection.execute(_DELETE, (base, before_at, limit)).rowcount
    over = connection.execute(_NEXT, (before_at, _COMPACTED_UP_TO, limit)).fetchall()
    submissions = 0
    if over:
        rows = [(id,) for id, _ in over]
        connection.executemany("DELETE FROM managed WHERE job = ?", rows)
        submissions = connection.executemany("DELETE FROM submissions WHERE job = ?", rows).rowcount
        connection.execute(REPLACE_SETTING, (_COMPACTED_UP_TO, str(over[-1][1])))
    keys = connection.execute(
        "DELETE FROM submission_keys WHERE key IN (SELECT key FROM submission_keys WHERE at < ? LIMIT ?)",
        (before_at, limit),
    ).rowcount
    return Compacted(facts, submissions, max(facts, len(over), keys) < limit)


def _wants_base(connection: sqlite3.Connection, last_seq: int, base_every_s: float) -> bool:
    """Whether a new base is due. Bases are large, so none is stored while the latest is recent enough."""
    latest = connection.execute("SELECT seq, at FROM bases ORDER BY seq DESC LIMIT 1").fetchone()
    if latest is None or latest[1] is None:
        return latest is None or latest[0] != last_seq
    now = connection.execute("SELECT at FROM meta").fetchone()[0]
    return bool(latest[0] != last_seq and now - latest[1] >= base_every_s)
