"""The journal of one manager: facts and tables, which one writer commits together and many may read.

Persist, then act: a manager lets its Controller handle facts, commits the facts and the decisions, and only
then carries out the commands. When a commit returns, all of it is durable; when it fails, nothing is stored.

    store = Store.open(home / "journal.db")
    controller.handle(facts, step)
    batch.add(facts, step)
    store.commit(controller, batch)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import JobId
from tiresias.core.plugins import Policy
from tiresias.core.state import State
from tiresias.store import codec, mark, memories, tables
from tiresias.store.batch import Batch, Chosen
from tiresias.store.changes import Changes, Counters, Known, changes_of
from tiresias.store.compaction import Compacted, compact
from tiresias.store.database import connect_writer, transaction
from tiresias.store.errors import StoreError, damaged, explaining
from tiresias.store.loading import Loaded, loaded
from tiresias.store.lock import Lock
from tiresias.store.mark import Mark, Marked
from tiresias.store.reader import Reader, hashed, read_rows
from tiresias.store.rows import ALL_RUN_COLUMNS, instant, refused_in, to_json

PLANNED = frozenset({f.SharesSet, f.WishChanged})  # they change what is stored with the policy


class Store(Reader):
    """A Reader that may also write. Only one process can have it open; any thread may call its methods."""

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection, *, is_marked: bool = False):
        super().__init__(path)
        self._mark: Mark | None = None
        self._lock = lock
        self._writing = RLock()
        self._write = connection
        self._memory = ""  # of the policy and the placer, as stored; not known before `begin` or `load`
        self._has_turns = False  # whether turns of runs are stored with it
        self._seen = 0  # what the placer had seen when its memory was stored
        self._is_new = True
        self._known = Known()
        self._ended_counts: dict[str, int] = {}
        self._journal_ids: dict[int, str] = {}
        try:
            if found := self.damage(is_start=True):
                raise StoreError(damaged(path, found))
            self._journal_ids = super().journal_ids()
            self._read_counters()
            if is_marked:
                if problem := self.lost_commits():
                    raise StoreError(problem)
                self._mark = Mark(path)
        except BaseException:
            super().close()
            raise

    @classmethod
    def open(cls, path: Path, *, home: Path | None = None, synchronous: str = "FULL") -> Self:
        """Open the journal at `path`, or create it; InUse if another process has it open.

        With `synchronous="NORMAL"` commits survive a crash of the manager, but the last ones may be lost in a
        loss of power. "OFF" never waits for the disk and is meant for simulations.
        """
        with explaining(path, "open the journal"):
            path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path.with_name(path.name + ".lock"), home or path.parent)
        connection = None
        try:
            mark.check_present(path)
            connection = connect_writer(path, synchronous)
            return cls(path, lock, connection, is_marked=synchronous == "FULL")
        except BaseException:
            if connection is not None:
                connection.close()
            lock.release()
            raise

    def close(self) -> None:
        """Close the file and release the lock; all commits are on disk already. May be called twice."""
        with self._writing:
            super().close()
            self._write.close()
            if self._mark is not None:
                self._mark.close()
            self._lock.release()

    @property
    def is_new(self) -> bool:
        """Whether `begin` has not been called for this journal yet."""
        return self._is_new

    def journal_ids(self) -> dict[int, str]:
        """The ids of this journal, each by the first run that has it, from memory."""
        return self._journal_ids

    @property
    def next_job_id(self) -> JobId:
        """One more than the highest id of any job that was submitted."""
        return JobId(self._known.counters.next_job_id)

    # --- writing ---------------------------------------------------------------------------------------

    def begin(self, controller: Controller, chosen: Chosen) -> None:
        """Store the initial State of a new journal, before the first commit."""
        if not self._is_new:
            raise StoreError(f"{self.path}: this journal has begun already; use load()")
        state = controller.state
        if state.jobs:
            raise StoreError(f"{self.path}: a journal begins without jobs, and there are {len(state.jobs)}")
        memory = memories.dump(controller.policy, state)
        with self._transaction("begin the journal"):
            tables.write_nodes(self._write, state)
            tables.write_policy(self._write, chosen, memory)
            tables.write_meta(self._write, state, self._known.counters)
            self._write_base({})
        self._keep_memory(memory)
        self._is_new = False
        self._known.counters.commits = 1
        self._write_mark()
        with explaining(self.path, "begin the journal"):  # the file has its id even if it loses its log
            self._write.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def commit(self, controller: Controller, batch: Batch) -> int:
        """Store a batch in one transaction and return the number of its last fact.

        Call it after the steps were handled and before their commands are carried out. The tables are written
        from the present State, so the batch must contain all steps since the last commit.
        """
        if self._is_new:
            raise StoreError(f"{self.path}: this journal has not begun; call begin() before the first commit")
        if batch.chosen is not None and batch.steps:
            raise StoreError(
                "a change of policy needs a batch without steps, before the new Controller handles anything"
            )
        state = controller.state
        with self._writing:
            changes = changes_of(batch, state, self._known)
            memory = self._new_memory(controller, batch, changes)
            with explaining(self.path, "commit"), transaction(self._write):
                tables.write(self._write, changes, state, batch)
                if memory is not None:
                    self._write.execute(tables.UPDATE_MEMORY, (memory,))
                if batch.chosen is not None:
                    self._write_base(refused_in(state))
            changes.remember(batch)
            self._write_mark()
            for job in batch.ended.values():
                self._ended_counts[job.phase.value] = self._ended_counts.get(job.phase.value, 0) + 1
            if memory is not None:
                self._keep_memory(memory)
            return self._known.counters.last_seq

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        """A transaction that is not a batch, counted as a commit."""
        with self._writing, explaining(self.path, doing):
            commits = self._known.counters.commits + 1
            with transaction(self._write):
                yield
                self._write.execute(tables.COUNT_COMMIT, (commits,))
            if not self._is_new:
                self._known.counters.commits = commits
                self._write_mark()

    def _write_mark(self) -> None:
        if self._mark is not None:
            ids = self._journal_ids
            counters = self._known.counters
            self._mark.write(Marked(ids[max(ids)], counters.commits, counters.last_seq))

    def _new_memory(self, controller: Controller, batch: Batch, changes: Changes) -> str | None:
        """The memories of the policy and the placer as text if they have changed, else None."""
        policy, placing = controller.policy, controller.state.placing
        seen = 0 if placing is None else placing["seen"]
        is_known = not changes.kinds & policy.learns and seen == self._seen
        is_known = is_known and not changes.kinds & PLANNED and controller.state.wish is None
        is_known = is_known and not (self._has_turns or controller.state.paced)
        if batch.chosen is None and is_known:
            return None
        self._seen = seen
        memory = memories.dump(policy, controller.state)
        return None if memory == self._memory else memory

    def _keep_memory(self, memory: str) -> None:
        self._memory = memory
        self._has_turns = f'"{memories.OF_TURNS}"' in memory

    def _write_base(self, refused: Mapping[int, float]) -> None:
        """Store the whole present State, from which a replay can start, in the transaction of the caller."""
        rows = read_rows(self._write, self.path)
        rows.refused = dict(refused)
        self._write.execute(tables.INSERT_BASE, (self._known.counters.last_seq, rows.at, to_json(rows)))

    # --- loading ---------------------------------------------------------------------------------------

    def load(self, policy: Policy | None = None) -> Loaded:
        """The State of the last commit and everything that a manager needs to continue from it.

        `policy` must be the policy of the journal (see `chosen`); by default it is made by its name.
        """
        with self._writing:
            found = loaded(self, policy)
            with self._transaction("store the restart"):
                row = (self._known.counters.last_seq, instant(found.state.at))
                self._write.execute(tables.INSERT_RESTART, row)
            if found.failure is None:
                self._keep_memory(memories.dump(found.policy, found.state))
            return found

    def _read_counters(self) -> None:
        """Read from the tables what the writer keeps in memory."""
        meta = self._one("SELECT last_seq, last_step, next_job_id, commits FROM meta")
        if meta is None:
            return
        self._is_new = False
        self._known = Known(Counters(*meta), dict(self._all("SELECT id, submitted_seq FROM jobs")))
        for row in self._all(f"SELECT {ALL_RUN_COLUMNS} FROM runs WHERE exited_at IS NULL"):
            self._known.add_run(row)
        self._ended_counts = self.history.counts()

    def ended_counts(self) -> dict[str, int]:
        """The number of ended jobs by phase, from memory."""
        return dict(self._ended_counts)

    # --- compaction, settings, tokens ------------------------------------------------------------------

    def compact(
        self,
        before_at: float,
        *,
        limit: int = 10_000,
        base_every_s: float = 0.0,
        state: State | None = None,
    ) -> Compacted:
        """Delete facts of jobs that ended before `before_at` (epoch seconds), at most `limit` of them.

        Rows of `history` and `runs` stay for ever. Each call first stores a base, unless the latest one is
        less than `base_every_s` seconds old. Facts are deleted only up to a base from before `before_at`, so
        the first calls delete nothing. `state` is that of the last commit; a running manager must pass it.
        """
        with self._transaction("compact"):
            last_seq = self._known.counters.last_seq
            refused = {} if state is None else refused_in(state)
            write = partial(self._write_base, refused)
            return compact(self._write, last_seq, before_at, limit, base_every_s, write)

    def set_setting(self, key: str, value: Any) -> None:
        """Store a value under a name; None deletes it."""
        with self._transaction("store a setting"):
            if value is None:
                self._write.execute("DELETE FROM settings WHERE key = ?", (key,))
            else:
                row = (key, codec.dump(value))
                self._write.execute(tables.REPLACE_SETTING, row)

    def add_token(self, token: str, *, name: str, user: str, role: str, at: float) -> None:
        """Add an access token, of which only the hash is stored. It is listed and revoked by its name."""
        if any(known.name == name for known in self.tokens()):
            raise StoreError(f"{self.path}: there is a token named {name!r} already; revoke it first")
        with self._transaction("store a token"):
            row = (hashed(token), name, user, role, at)
            self._write.execute(
                "INSERT INTO tokens (hash, name, user, role, created_at) VALUES (?,?,?,?,?)", row
            )

    def revoke_token(self, name: str) -> bool:
        """Delete the token with this name; False if there is none."""
        with self._transaction("revoke a token"):
            return self._write.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount > 0
