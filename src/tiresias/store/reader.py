"""Looking at the journal while the manager writes to it.

A Reader sees what was committed when it is asked, never half a commit. It may be used from any thread (one
question at a time); whoever asks a lot opens one of its own. No question is left open between two calls,
so no reader holds up the writer.
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
from tiresias.store import records as r
from tiresias.store.batch import Chosen, SubmissionKey
from tiresias.store.database import connect_reader
from tiresias.store.errors import StoreError, explaining
from tiresias.store.records import JobRecord, RunRecord, RunSpan, StoredFact, TokenRecord
from tiresias.store.rows import JOB_COLUMNS, NODE_COLUMNS, RUN_COLUMNS, Row, Rows

T = TypeVar("T")


class Reader:
    def __init__(self, path: Path):
        self.path = path
        self._reading = RLock()
        self._read: sqlite3.Connection = connect_reader(path)

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
        rows = self._all(f"SELECT {r.FACT} FROM facts WHERE seq > ? ORDER BY seq LIMIT ?", since, limit)
        return [r.fact_of(row) for row in rows]

    def story(self, job_id: JobId) -> list[StoredFact]:
        """All facts of one job, in order; of a job that ended long ago only its records are left."""
        rows = self._all(f"SELECT {r.FACT} FROM facts WHERE job = ? ORDER BY seq", job_id)
        return [r.fact_of(row) for row in rows]

    # --- jobs and runs ---------------------------------------------------------------------------------

    def job(self, id: JobId) -> JobRecord | None:
        """A job, active or ended."""
        row = self._one(
            f"SELECT {r.ACTIVE} FROM jobs WHERE id = ?1"
            f" UNION ALL SELECT {r.ENDED} FROM history WHERE id = ?1",
            id,
        )
        return None if row is None else r.job_of(row)

    def active(self) -> list[JobRecord]:
        """The jobs that have not ended, in the order of submission."""
        return [r.job_of(row) for row in self._all(f"SELECT {r.ACTIVE} FROM jobs ORDER BY place")]

    def ended(self, limit: int = 100, cursor: int | None = None) -> tuple[list[JobRecord], int | None]:
        """Ended jobs, the latest first, and the cursor of the next page (None: that was all)."""
        where = "" if cursor is None else "WHERE ended_seq < ?2"
        values = (limit,) if cursor is None else (limit, cursor)
        rows = self._all(f"SELECT {r.ENDED} FROM history {where} ORDER BY ended_seq DESC LIMIT ?1", *values)
        page = [r.job_of(row) for row in rows]
        return page, page[-1].ended_seq if len(page) == limit else None

    def latest_of_name(self, name: str, user: str | None = None) -> JobId | None:
        """The job of this name, of this user or of anybody, that ended last."""
        whose = "" if user is None else "AND user = ?2"
        values = (name,) if user is None else (name, user)
        row = self._one(
            f"SELECT id FROM history WHERE name = ?1 {whose} ORDER BY ended_seq DESC LIMIT 1", *values
        )
        return None if row is None else JobId(row[0])

    def ended_counts(self) -> dict[str, int]:
        """How many jobs ended in which phase."""
        return dict(self._all("SELECT phase, count(*) FROM history GROUP BY phase"))

    def usage(self, by: str, since: float, short_s: float) -> list[Row]:
        """Of the jobs that ended since: who, jobs, service, mean wait, short ones, ones submitted before."""
        assert by in ("user", "tenant"), by
        return self._all(
            f"SELECT {by}, count(*), sum(service_gpu_s), avg(first_started_at - submitted_at),"
            " sum(held_s < ?2),"
            " count(*) - count(DISTINCT coalesce(json_extract(record, '$.fingerprint'), id))"
            f" FROM history WHERE ended_at >= ?1 GROUP BY {by}",
            since,
            short_s,
        )

    def runs(self, job_id: JobId) -> list[RunRecord]:
        """Every run of a job, the first first."""
        rows = self._all(f"SELECT {r.RUN} FROM runs WHERE job = ? ORDER BY number", job_id)
        return [r.run_of(row) for row in rows]

    def run(self, id: RunId) -> RunRecord | None:
        row = self._one(f"SELECT {r.RUN} FROM runs WHERE id = ?", id)
        return None if row is None else r.run_of(row)

    def spans(self, job_ids: Iterable[JobId]) -> dict[JobId, list[RunSpan]]:
        """The closed runs of many jobs at once, the first first."""
        found: dict[JobId, list[RunSpan]] = {}
        rows = self._all(
            "SELECT job, granted_at, started_at, revoked_at, exited_at, json_extract(exit, '$.told')"
            " FROM runs WHERE job IN (SELECT value FROM json_each(?)) AND exited_at IS NOT NULL"
            " ORDER BY job, number",
            json.dumps(list(job_ids)),
        )
        for row in rows:
            found.setdefault(JobId(row[0]), []).append(r.span_of(row[1:]))
        return found

    def open_runs(self) -> list[RunRecord]:
        """The runs whose exit is not known, in the order of grant."""
        rows = self._all(f"SELECT {r.RUN} FROM runs WHERE exited_at IS NULL ORDER BY id")
        return [r.run_of(row) for row in rows]

    def submission(self, id: JobId) -> Any:
        """What the manager stored as the user's submission; None if there is none (any more)."""
        return self._json("SELECT body FROM submissions WHERE job = ?", id)

    def note(self, id: JobId) -> Any:
        """What the manager noted about the job; None if nothing."""
        return self._json("SELECT body FROM notes WHERE job = ?", id)

    def notes(self) -> dict[JobId, Any]:
        """The notes about all active jobs."""
        rows = self._all("SELECT notes.job, body FROM notes JOIN jobs ON jobs.id = notes.job")
        return {JobId(id): json.loads(body) for id, body in rows}

    # --- keys, tokens, settings ------------------------------------------------------------------------

    def submission_key(self, key: str) -> SubmissionKey | None:
        """The jobs that were submitted under this idempotency key."""
        row = self._one("SELECT jobs, digest FROM submission_keys WHERE key = ?", key)
        return None if row is None else SubmissionKey([JobId(id) for id in json.loads(row[0])], row[1])

    def token(self, token: str) -> TokenRecord | None:
        """Whose token this is."""
        row = self._one("SELECT name, user, role, created_at FROM tokens WHERE hash = ?", hashed(token))
        return None if row is None else TokenRecord(*row)

    def tokens(self) -> list[TokenRecord]:
        rows = self._all("SELECT name, user, role, created_at FROM tokens ORDER BY name")
        return [TokenRecord(*row) for row in rows]

    def setting(self, key: str, default: T) -> T:
        """What was set, of the type of the default."""
        row = self._one("SELECT value FROM settings WHERE key = ?", key)
        if row is None:
            return default
        value = json.loads(row[0])
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if default is not None and type(value) is not type(default):
            kind = type(default).__name__
            raise StoreError(
                f"{self.path}: the setting {key!r} is {value!r}, which is no {kind}; set it anew"
            )
        return value  # type: ignore[no-any-return]

    def settings(self) -> dict[str, Any]:
        return {
            key: json.loads(value) for key, value in self._all("SELECT key, value FROM settings ORDER BY key")
        }

    # --- the State -------------------------------------------------------------------------------------

    def chosen(self) -> Chosen | None:
        """The policy and the placer in use; None in a new journal."""
        row = self._one("SELECT name, options, placer, placer_options FROM policy")
        return None if row is None else chosen_of(row)

    def rows(self) -> Rows:
        """The whole State as of the last commit."""
        with self._reading, explaining(self.path, "read the journal"):
            self._read.execute("BEGIN")
            try:
                return read_rows(self._read, self.path)
            finally:
                self._read.execute("ROLLBACK")

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file; empty if nothing. Reads all of it."""
        found = [row[0] for row in self._all("PRAGMA quick_check")]
        return [] if found == ["ok"] else found

    def pages(self, since: int, size: int = 2000) -> Iterator[StoredFact]:
        """All facts after number `since`, read a page at a time."""
        while page := self.facts(since, size):
            yield from page
            since = page[-1].seq

    def _json(self, sql: str, *values: Any) -> Any:
        row = self._one(sql, *values)
        return None if row is None else json.loads(row[0])


class Submissions(Mapping[JobId, Any]):
    """The submissions of active jobs, each read when it is asked for: environments are large."""

    def __init__(self, reader: Reader):
        self._reader = reader

    def __getitem__(self, id: JobId) -> Any:
        found = self._reader.submission(id)
        if found is None:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[JobId]:
        sql = "SELECT id FROM jobs JOIN submissions ON submissions.job = jobs.id ORDER BY place"
        return iter([JobId(id) for (id,) in self._reader._all(sql)])

    def __len__(self) -> int:
        row = self._reader._one("SELECT count(*) FROM jobs JOIN submissions ON submissions.job = jobs.id")
        assert row is not None
        return int(row[0])


def hashed(token: str) -> str:
    """Tokens are long and random, so a plain hash will do."""
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
            f"{path}: nothing was ever stored here: this journal has no State to load; begin one"
        )
    return Rows(
        meta[0][0],
        meta[0][1],
        rows(f"SELECT {NODE_COLUMNS} FROM nodes ORDER BY position"),
        rows(f"SELECT {JOB_COLUMNS} FROM jobs ORDER BY place"),
        rows(f"SELECT {RUN_COLUMNS} FROM runs WHERE exited_at IS NULL ORDER BY id"),
        policy[0],
    )
