"""The journal of one manager: facts and tables, written together by one writer, read by many.

Persist, then act: a manager hands facts to its Controller, commits what came of it, and only then carries
the commands out. Everything of a commit is durable when it returns, or nothing of it is stored.

    store = Store.open(home / "journal.db")
    controller.handle(facts, step)
    batch.add(facts, step)
    store.commit(controller, batch)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

from tiresias.core.controller import Controller
from tiresias.core.model import JobId, RunId
from tiresias.core.plugins import Policy
from tiresias.core.state import State
from tiresias.store import codec, tables
from tiresias.store import statements as sql
from tiresias.store.batch import Batch, Chosen
from tiresias.store.changes import Changes, Counters, changes_of
from tiresias.store.compaction import Compacted, compact
from tiresias.store.database import connect_writer, transaction
from tiresias.store.errors import StoreError, explaining
from tiresias.store.loading import Loaded, loaded
from tiresias.store.lock import Lock
from tiresias.store.reader import Reader, hashed, read_rows
from tiresias.store.rows import instant, refused_in, to_json


class Store(Reader):
    """The one writer; everything a Reader can do, and more. Its methods may be called from any thread."""

    def __init__(self, path: Path, lock: Lock, connection: sqlite3.Connection):
        super().__init__(path)
        self._lock = lock
        self._writing = RLock()
        self._write = connection
        self._memory = ""  # as stored; unknown until loaded
        self._is_new = True
        self._counters = Counters()
        self._open_runs: dict[RunId, JobId] = {}
        self._ended_counts: dict[str, int] = {}
        try:
            self._remember()
        except BaseException:
            super().close()
            raise

    @classmethod
    def open(cls, path: Path, *, home: Path | None = None, synchronous: str = "FULL") -> Self:
        """The journal at `path`, made if there is none; refused while another process has it open.

        `synchronous="NORMAL"` survives a crash of the manager, but not always one of the machine; "OFF" never
        waits for the disk at all, and is for simulations.
        """
        with explaining(path, "open the journal"):
            path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path.with_name(path.name + ".lock"), home or path.parent)
        connection = None
        try:
            connection = connect_writer(path, synchronous)
            return cls(path, lock, connection)
        except BaseException:
            if connection is not None:
                connection.close()
            lock.release()
            raise

    def close(self) -> None:
        """Everything is on disk already; the lock is given back. May be called twice."""
        with self._writing:
            super().close()
            self._write.close()
            self._lock.release()

    @property
    def is_new(self) -> bool:
        """Nothing was begun here yet."""
        return self._is_new

    @property
    def next_job_id(self) -> JobId:
        """One more than the highest id ever submitted."""
        return JobId(self._counters.next_job_id)

    # --- writing ---------------------------------------------------------------------------------------

    def begin(self, controller: Controller, chosen: Chosen) -> None:
        """Store the State that everything starts from; for a new journal, before the first commit."""
        if not self._is_new:
            raise StoreError(f"{self.path}: this journal has begun already; load it")
        state = controller.state
        if state.jobs:
            raise StoreError(f"{self.path}: a journal begins without jobs, and there are {len(state.jobs)}")
        memory = saved(controller.policy, state.memory)
        with self._writing, explaining(self.path, "begin the journal"), transaction(self._write):
            tables.write_nodes(self._write, state)
            tables.write_policy(self._write, chosen, memory)
            tables.write_meta(self._write, state, self._counters)
            self._write_base({})
        self._memory = memory
        self._is_new = False

    def commit(self, controller: Controller, batch: Batch) -> int:
        """Make a batch durable, whole; the number of its last fact.

        Called after the steps were handled and before their commands are carried out. The tables get what
        the State says now, so all steps since the last commit must be in the batch.
        """
        if self._is_new:
            raise StoreError(f"{self.path}: this journal has not begun; begin it before the first commit")
        if batch.chosen is not None and batch.steps:
            raise StoreError(
                "a change of policy goes into a batch of its own, before anything is handled under it"
            )
        state = controller.state
        with self._writing:
            changes = changes_of(batch, state, self._open_runs, self._counters)
            memory = self._new_memory(controller, batch, changes)
            with explaining(self.path, "commit"), transaction(self._write):
                tables.write(self._write, changes, state, batch)
                if memory is not None:
                    self._write.execute(sql.UPDATE_MEMORY, (memory,))
                if batch.chosen is not None:
                    self._write_base(refused_in(state))
            self._counters = changes.counters
            self._open_runs.update((id, grant.job_id) for id, grant in changes.granted.items())
            for id in changes.exited:
                del self._open_runs[id]
            for job in batch.ended.values():
                self._ended_counts[job.phase.value] = self._ended_counts.get(job.phase.value, 0) + 1
            if memory is not None:
                self._memory = memory
            return self._counters.last_seq

    def _new_memory(self, controller: Controller, batch: Batch, changes: Changes) -> str | None:
        """The policy's memory if it may have changed and has."""
        policy = controller.policy
        if batch.chosen is None and not changes.kinds & policy.learns:
            return None
        memory = saved(policy, controller.state.memory)
        return None if memory == self._memory else memory

    def _write_base(self, refused: Mapping[int, float]) -> None:
        """Keep the State as it is now, whole, as a place to replay from; in the caller's transaction."""
        rows = read_rows(self._write, self.path)
        rows.refused = dict(refused)
        self._write.execute(sql.INSERT_BASE, (self._counters.last_seq, rows.at, to_json(rows)))

    # --- loading ---------------------------------------------------------------------------------------

    def load(self, policy: Policy | None = None) -> Loaded:
        """The State of the last commit and all that a manager needs to go on from it.

        `policy` is the one that wrote the journal (see `chosen`); by default it is made by its name.
        """
        with self._writing:
            found = loaded(self, policy)
            with explaining(self.path, "note the restart"), transaction(self._write):
                self._write.execute(sql.INSERT_RESTART, (self._counters.last_seq, instant(found.state.at)))
            self._memory = saved(found.policy, found.state.memory)
            return found

    def _remember(self) -> None:
        """What the writer keeps at hand, from the tables."""
        meta = self._one("SELECT last_seq, last_step, next_job_id FROM meta")
        if meta is None:
            return
        self._counters = Counters(*meta)
        self._is_new = False
        rows = self._all("SELECT id, job FROM runs WHERE exited_at IS NULL")
        self._open_runs = {RunId(id): JobId(job) for id, job in rows}
        self._ended_counts = super().ended_counts()

    def ended_counts(self) -> dict[str, int]:
        """The same as a Reader's, without reading: their number only grows."""
        return dict(self._ended_counts)

    # --- keeping house ---------------------------------------------------------------------------------

    def compact(
        self,
        before_at: float,
        *,
        limit: int = 10_000,
        base_every_s: float = 0.0,
        state: State | None = None,
    ) -> Compacted:
        """Take facts of jobs that ended before `before_at` out of the journal, at most `limit` of them.

        Their history rows and runs stay for ever. A whole State is kept first, to replay from, so facts
        leave only up to a base that is old enough: a manager that compacts now and then makes these, one
        every `base_every_s` seconds at most. `state` is that of the last commit, of a manager that runs.
        """
        with self._writing, explaining(self.path, "compact"):
            last_seq = self._counters.last_seq
            refused = {} if state is None else refused_in(state)
            write = partial(self._write_base, refused)
            return compact(self._write, last_seq, before_at, limit, base_every_s, write)

    def set_setting(self, key: str, value: Any) -> None:
        """Keep a value under a name; None forgets it."""
        with self._writing, explaining(self.path, "store a setting"), transaction(self._write):
            if value is None:
                self._write.execute("DELETE FROM settings WHERE key = ?", (key,))
            else:
                row = (key, codec.dump(value))
                self._write.execute(sql.REPLACE_SETTING, row)

    def add_token(self, token: str, *, name: str, user: str, role: str, at: float) -> None:
        """Let a token in; only its hash is stored. The name is how it is listed and revoked."""
        if any(known.name == name for known in self.tokens()):
            raise StoreError(f"{self.path}: there is a token named {name!r} already; revoke it first")
        with self._writing, explaining(self.path, "store a token"), transaction(self._write):
            row = (hashed(token), name, user, role, at)
            self._write.execute(
                "INSERT INTO tokens (hash, name, user, role, created_at) VALUES (?,?,?,?,?)", row
            )

    def revoke_token(self, name: str) -> bool:
        """Whether there was a token of this name."""
        with self._writing, explaining(self.path, "revoke a token"), transaction(self._write):
            return self._write.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount > 0


def saved(policy: Policy, memory: Any) -> str:
    """A policy's memory as text; it is read by nobody but us, so infinities may be in it."""
    return json.dumps(policy.save(memory), separators=(",", ":"))
