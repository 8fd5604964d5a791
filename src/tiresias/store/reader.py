"""Reading the journal, also while the manager writes to it.

Every call of a Reader sees the commits up to that moment, each of them whole. A Reader may be used from any
thread, but its calls run one after the other; code that reads much should open a Reader of its own. No
transaction stays open between two calls, so a Reader never delays the writer for long.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeVar

from tiresias.core.model import JobId, RunId
from tiresias.store import checksums, mark
from tiresias.store import stored as s
from tiresias.store.batch import Chosen, SubmissionKey
from tiresias.store.codec import load
from tiresias.store.database import connect_reader, migrations
from tiresias.store.errors import StoreError, explaining
from tiresias.store.history import History
from tiresias.store.rows import JOB_COLUMNS, NODE_COLUMNS, RUN_COLUMNS, Row, Rows
from tiresias.store.stored import RunSpan, StoredExit, StoredFact, StoredJob, StoredRun, StoredToken
from tiresias.store.window import Window

T = TypeVar("T")
SMALL_BYTES = 16 * 2**20  # of a file whose structure is checked at each start


class Reader:
    """See the module. `history` reads the jobs that have ended, `window` what happened since an instant."""

    def __init__(self, path: Path):
        self.path = path
        self._reading = RLock()
        self._read: sqlite3.Connection = connect_reader(path)
        self.history = History(self._all)
        self.window = Window(self._all)

    def close(self) -> None:
        with self._reading:
            self._read.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self, sql: str, *values: Any) -> list[Row]:
        with self._reading, explaining(self.path, "read the journal"):
            return self._read.execute(sql, values).fetchall()

    def _one(self, sql: str, *values: Any) -> Row | None:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    # --- facts -----------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """The number of the last fact; 0 if there is none."""
        row = self._one("SELECT last_seq FROM meta")
        return 0 if row is None else row[0]

    def facts(self, since: int = 0, limit: int = 1000) -> list[StoredFact]:
        """The facts after number `since`, at most `limit`, in order."""
        rows = self._all(f"SELECT {s.FACT} FROM facts WHERE seq > ? ORDER BY seq LIMIT ?", since, limit)
        return [s.fact_of(row) for row in rows]

    def facts_of_job(self, job_id: JobId) -> list[StoredFact]:
        """All facts about one job, in order; none after compaction has deleted them."""
        rows = self._all(f"SELECT {s.FACT} FROM facts WHERE job = ? ORDER BY seq", job_id)
        return [s.fact_of(row) for row in rows]

    def stops_of_job(self, job_id: JobId) -> list[StoredFact]:
        """The facts by which runs of one job had to stop, in order."""
        rows = self._all(
            f"SELECT {s.FACT} FROM facts WHERE job = ?"
            " AND kind IN ('RunRevoked', 'JobCancelled', 'JobHeld', 'JobRequeued') ORDER BY seq",
            job_id,
        )
        return [s.fact_of(row) for row in rows]

    # --- jobs and runs ---------------------------------------------------------------------------------

    def job(self, id: JobId) -> StoredJob | None:
        """A job, active or ended; None if there is no such job."""
        row = self._one(
            f"SELECT {s.ACTIVE} FROM jobs WHERE id = ?1"
            f" UNION ALL SELECT {s.ENDED} FROM history WHERE id = ?1",
            id,
        )
        return None if row is None else s.job_of(row)

    def active(self) -> list[StoredJob]:
        """The jobs that have not ended, in the order of submission."""
        return [s.job_of(row) for row in self._all(f"SELECT {s.ACTIVE} FROM jobs ORDER BY submitted_seq")]

    def stopped_by(self, exits: Iterable[int]) -> dict[int, str]:
        """By the number of a RunExited: the kind of the last fact before it that stopped a run of its job."""
        rows = self._all(
            "SELECT e.seq, (SELECT s.kind FROM facts s WHERE s.job = e.job AND s.seq < e.seq"
            " AND s.kind IN ('RunRevoked', 'JobCancelled', 'JobHeld', 'JobRequeued')"
            " ORDER BY s.seq DESC LIMIT 1) FROM facts e WHERE e.seq IN (SELECT value FROM json_each(?))",
            json.dumps(list(exits)),
        )
        return {seq: kind for seq, kind in rows if kind is not None}

    def exits(self, ids: Iterable[RunId]) -> dict[RunId, StoredExit]:
        """How those of these runs ended that have ended."""
        rows = self._all(
            "SELECT id, revoked_at IS NOT NULL, json_extract(exit, '$.reason'),"
            " json_extract(exit, '$.killed'), json_extract(exit, '$.killed_at_once') FROM runs"
            " WHERE id IN (SELECT value FROM json_each(?)) AND exited_at IS NOT NULL",
            json.dumps(list(ids)),
        )
        return {
            RunId(id): StoredExit(bool(had_to), reason or "", bool(killed), bool(at_once))
            for id, had_to, reason, killed, at_once in rows
        }

    def run_numbers(self, ids: Iterable[RunId]) -> dict[RunId, int]:
        """The number that each of these runs has among the runs of its job."""
        rows = self._all(
            "SELECT id, number FROM runs WHERE id IN (SELECT value FROM json_each(?))", json.dumps(list(ids))
        )
        return {RunId(id): number for id, number in rows}

    def runs(self, job_id: JobId) -> list[StoredRun]:
        """Every run of a job, by number."""
        rows = self._all(f"SELECT {s.RUN} FROM runs WHERE job = ? ORDER BY number", job_id)
        return [s.run_of(row) for row in rows]

    def run(self, id: RunId) -> StoredRun | None:
        row = self._one(f"SELECT {s.RUN} FROM runs WHERE id = ?", id)
        return None if row is None else s.run_of(row)

    def spans(self, job_ids: Iterable[JobId]) -> dict[JobId, list[RunSpan]]:
        """The runs of many jobs that have exited, by number."""
        found: dict[JobId, list[RunSpan]] = {}
        rows = self._all(
            f"SELECT job, {s.SPAN}"
            " FROM runs WHERE job IN (SELECT value FROM json_each(?)) AND exited_at IS NOT NULL"
            " ORDER BY job, number",
            json.dumps(list(job_ids)),
        )
        for row in rows:
            found.setdefault(JobId(row[0]), []).append(s.span_of(row[1:]))
        return found

    def open_runs(self) -> list[StoredRun]:
        """The runs that have not exited, in the order of their grants."""
        rows = self._all(f"SELECT {s.RUN} FROM runs WHERE exited_at IS NULL ORDER BY id")
        return [s.run_of(row) for row in rows]

    def submission(self, id: JobId) -> Any:
        """The job specification as the manager stored it; None if there is none or it was compacted."""
        return self._json("SELECT body FROM submissions WHERE job = ?", id)

    def managed_job(self, id: JobId) -> Any:
        """What `Batch.managed` stored of the job last; None if there is nothing or it was compacted."""
        return self._json("SELECT body FROM managed WHERE job = ?", id)

    def managed_jobs(self) -> dict[JobId, Any]:
        """What `Batch.managed` stored of all active jobs."""
        rows = self._all("SELECT managed.job, body FROM managed JOIN jobs ON jobs.id = managed.job")
        return {JobId(id): load(body) for id, body in rows}

    # --- keys, tokens, settings ------------------------------------------------------------------------

    def submission_key(self, key: str) -> SubmissionKey | None:
        """The jobs that were submitted under this idempotency key."""
        row = self._one("SELECT jobs, digest FROM submission_keys WHERE key = ?", key)
        return None if row is None else SubmissionKey([JobId(id) for id in json.loads(row[0])], row[1])

    def token(self, token: str) -> StoredToken | None:
        """The name, user and role of a token; None if it is not valid."""
        row = self._one("SELECT name, user, role, created_at FROM tokens WHERE hash = ?", hashed(token))
        return None if row is None else StoredToken(*row)

    def tokens(self) -> list[StoredToken]:
        rows = self._all("SELECT name, user, role, created_at FROM tokens ORDER BY name")
        return [StoredToken(*row) for row in rows]

    def setting(self, key: str, default: T) -> T:
        """The value of a setting, or `default` if it is not set. It must have the type of the default."""
        row = self._one("SELECT value FROM settings WHERE key = ?", key)
        if row is None:
            return default
        value = json.loads(row[0])
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if default is not None and type(value) is not type(default):
            kind = type(default).__name__
            raise StoreError(
                f"{self.path}: the setting {key!r} is {value!r}, which is not of type {kind}; set it again"
            )
        return value  # type: ignore[no-any-return]

    def settings_of(self, prefix: str) -> dict[str, Any]:
        """All settings whose names begin so."""
        question = "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY rowid"
        return {key: json.loads(value) for key, value in self._all(question, len(prefix), prefix)}

    def settings(self) -> dict[str, Any]:
        return {
            key: json.loads(value) for key, value in self._all("SELECT key, value FROM settings ORDER BY key")
        }

    # --- which journal this is -------------------------------------------------------------------------

    def journal_ids(self) -> dict[int, str]:
        """The ids of this journal, each by the first run that has it; more than one after a restore."""
        return dict(self._all("SELECT first_run_id, id FROM journal_ids ORDER BY first_run_id"))

    def journal_id_of(self, run_id: RunId) -> str:
        """The id that the files of this run must name; empty if an earlier version granted the run."""
        ids = self.journal_ids()
        return ids[max(first for first in ids if first <= run_id)]

    def lost_commits(self) -> str:
        """Whether commits are missing that were made in this file, in words; empty if none is."""
        marked = mark.read(self.path)  # before the journal, which may grow meanwhile
        row = self._one("SELECT commits, last_seq FROM meta") or (0, 0)
        return mark.lost(self.path, marked, set(self.journal_ids().values()), *row)

    @property
    def next_job_id(self) -> JobId:
        """One more than the highest id of any job that was submitted."""
        row = self._one("SELECT next_job_id FROM meta")
        return JobId(1 if row is None else row[0])

    # --- the State -------------------------------------------------------------------------------------

    def chosen(self) -> Chosen | None:
        """The policy and the placer in use; None in a new journal."""
        row = self._one("SELECT name, options, placer, placer_options FROM policy")
        return None if row is None else chosen_of(row)

    def rows(self) -> Rows:
        """The rows of the whole State as of the last commit."""
        with self._reading, explaining(self.path, "read the journal"):
            self._read.execute("BEGIN")
            try:
                return read_rows(self._read, self.path)
            finally:
                self._read.execute("ROLLBACK")

    def damage(self, *, is_start: bool = False) -> list[str]:
        """What is wrong with the content of the file; empty if nothing.

        Reads the whole file. With `is_start` it reads what a manager loads, the latest rows of the tables
        that grow, and the structure of the file if that is small.
        """
        with self._reading, explaining(self.path, "check the journal"):
            found = []
            if not is_start:
                found = [row[0] for row in self._read.execute("PRAGMA integrity_check(20)").fetchall()]
            elif self.path.stat().st_size <= SMALL_BYTES:
                found = [row[0] for row in self._read.execute("PRAGMA quick_check(20)").fetchall()]
            wrong = [] if found == ["ok"] else found
            wrong += checksums.schema_damage(self._read, migrations())
            return wrong or list(checksums.damaged_rows(self._read, is_start=is_start))

    def damaged_rows(self, *tables: str) -> list[str]:
        """Rows of these tables that have not the values that were stored."""
        with self._reading, explaining(self.path, "check the journal"):
            return list(checksums.damaged_rows(self._read, tables=tables))

    def all_facts(self, since: int, size: int = 2000) -> Iterator[StoredFact]:
        """All facts after number `since`, read in pages of `size`."""
        while page := self.facts(since, size):
            yield from page
            since = page[-1].seq

    def _json(self, sql: str, *values: Any) -> Any:
        row = self._one(sql, *values)
        return None if row is None else load(row[0])


class Submissions(Mapping[JobId, Any]):
    """The submissions of active jobs, each read on access, because environments are large."""

    def __init__(self, reader: Reader):
        self._reader = reader

    def __getitem__(self, id: JobId) -> Any:
        found = self._reader.submission(id)
        if found is None:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[JobId]:
        sql = "SELECT id FROM jobs JOIN submissions ON submissions.job = jobs.id ORDER BY submitted_seq"
        return iter([JobId(id) for (id,) in self._reader._all(sql)])

    def __len__(self) -> int:
        row = self._reader._one("SELECT count(*) FROM jobs JOIN submissions ON submissions.job = jobs.id")
        assert row is not None
        return int(row[0])


def hashed(token: str) -> str:
    """The hash under which a token is stored. Tokens are long and random, so it needs no salt."""
    return sha256(token.encode()).hexdigest()


def chosen_of(row: Row) -> Chosen:
    name, options, placer, placer_options = row[:4]
    return Chosen(name, json.loads(options), placer, json.loads(placer_options))


def read_rows(connection: sqlite3.Connection, path: Path) -> Rows:
    """All rows of the State, inside the caller's transaction."""

    def rows(sql: str) -> list[Row]:
        return connection.execute(sql).fetchall()

    meta = rows("SELECT at, next_run_id FROM meta")
    policy = rows("SELECT name, options, placer, placer_options, memory FROM policy")
    if not meta or not policy:
        raise StoreError(
            f"{path}: nothing has been stored here yet, so there is no State to load; call begin() first"
        )
    return Rows(
        meta[0][0],
        meta[0][1],
        rows(f"SELECT {NODE_COLUMNS} FROM nodes ORDER BY position"),
        rows(f"SELECT {JOB_COLUMNS} FROM jobs ORDER BY submitted_seq"),
        rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE exited_at IS NULL ORDER BY id"),
        policy[0],
    )
