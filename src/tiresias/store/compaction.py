"""Taking facts of long ended jobs out of the journal, without losing the way to replay the rest.

Replay needs a whole State (a base) and every fact after it. So compaction keeps a base of the present State
each time it is called, picks the latest base that is old enough, and removes from before it the facts of
jobs that had ended by then, and those of no job at all (nodes, timers, which are in the base). Facts of
jobs that are still active, or were at the base, stay for their story.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from tiresias.store.database import transaction

_DELETE = """
DELETE FROM facts WHERE seq IN (
    SELECT facts.seq FROM facts LEFT JOIN history ON history.id = facts.job
    WHERE facts.seq <= ?1 AND (facts.job IS NULL OR (history.ended_seq <= ?1 AND history.ended_at < ?2))
    ORDER BY facts.seq LIMIT ?3
)"""
_GONE = """
DELETE FROM {table} WHERE job IN (
    SELECT {table}.job FROM {table} JOIN history ON history.id = {table}.job
    WHERE history.ended_at < ?1 LIMIT ?2
)"""


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
    write_base: Callable[[], None],
) -> Compacted:
    with transaction(connection):
        if connection.execute("SELECT 1 FROM bases WHERE seq = ?", (last_seq,)).fetchone() is None:
            write_base()
        base = connection.execute("SELECT max(seq) FROM bases WHERE at < ?", (before_at,)).fetchone()[0]
        facts = 0
        if base is not None:
            connection.execute("DELETE FROM bases WHERE seq < ?", (base,))
            connection.execute("DELETE FROM restarts WHERE seq < ?", (base,))
            facts = connection.execute(_DELETE, (base, before_at, limit)).rowcount
        gone = connection.execute(_GONE.format(table="submissions"), (before_at, limit)).rowcount
        notes = connection.execute(_GONE.format(table="notes"), (before_at, limit)).rowcount
        keys = connection.execute(
            "DELETE FROM submission_keys WHERE key IN (SELECT key FROM submission_keys WHERE at < ? LIMIT ?)",
            (before_at, limit),
        ).rowcount
    return Compacted(facts, gone, max(facts, gone, notes, keys) < limit)
