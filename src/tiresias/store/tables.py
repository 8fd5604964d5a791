"""The SQL of a commit, and the functions that write a batch inside the transaction of the caller."""

from __future__ import annotations

from sqlite3 import Connection

from tiresias.core.model import RunId
from tiresias.core.state import State
from tiresias.store.batch import Batch, Chosen
from tiresias.store.changes import Changes, Counters
from tiresias.store.codec import NODE, dump
from tiresias.store.errors import StoreError
from tiresias.store.rows import JOB_COLUMNS, instant

# Of the rows that are written most, the checksum is part of the statement; triggers add that of all others.
INSERT_FACT = (
    "INSERT INTO facts (seq, step, decided, at, kind, version, job, body, crc)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
    " row_crc('facts', ?1, ?2, ?3, CAST(?4 AS REAL), ?5, ?6, ?7, ?8))"
)

_UPDATED = [name.strip() for name in JOB_COLUMNS.split(",")][1:]
UPSERT_JOB = (
    f"INSERT INTO jobs (submitted_seq, {JOB_COLUMNS}) VALUES (?{',?' * (len(_UPDATED) + 1)})"
    f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _UPDATED)}"
)
DELETE_JOB = "DELETE FROM jobs WHERE id = ?"
HISTORY_COLUMNS = (
    "ended_seq, id, job, user, tenant, name, gpus, phase, submitted_at, first_started_at, ended_at, runs,"
    " preemptions, executed_s, service_gpu_s, progress_s, ending"
)
INSERT_HISTORY = f"INSERT INTO history ({HISTORY_COLUMNS}) VALUES ({','.join('?' * 17)})"
SEEN_BEFORE = "SELECT 1 FROM jobs WHERE id = ?1 UNION ALL SELECT 1 FROM history WHERE id = ?1"

INSERT_RUN = (
    "INSERT INTO runs (id, job, number, allocation, granted_at, progress_at, progress_s, speed)"
    " VALUES (?,?,?,?,?,?,0.0,0.0)"
)
UPDATE_RUN = "UPDATE runs SET started_at = ?, progress_s = ?, progress_at = ?, speed = ? WHERE id = ?"
REVOKE_RUN = "UPDATE runs SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?"
START_RUN = "UPDATE runs SET started_at = ? WHERE id = ?"
EXIT_RUN = (
    "UPDATE runs SET exited_at = ?, cause = ?, progress_s = ?, progress_at = ?, speed = 0.0, exit = ?"
    " WHERE id = ?"
)

REPLACE_NODE = "INSERT OR REPLACE INTO nodes (position, name, node, in_service, out_slots) VALUES (?,?,?,?,?)"
REPLACE_META = (
    "INSERT OR REPLACE INTO meta (one, at, last_seq, last_step, next_run_id, next_job_id, commits)"
    " VALUES (1,?,?,?,?,?,?)"
)
COUNT_COMMIT = "UPDATE meta SET commits = ?"
INSERT_POLICY = "INSERT INTO policy (one, name, options, placer, placer_options, memory) VALUES (1,?,?,?,?,?)"
UPDATE_POLICY = "UPDATE policy SET name = ?, options = ?, placer = ?, placer_options = ?"
FIND_KEY = "SELECT jobs FROM submission_keys WHERE key = ?"
UPDATE_MEMORY = "UPDATE policy SET memory = ?"
_BODY = "INSERT OR REPLACE INTO {0} (job, body, crc) VALUES (?1, ?2, row_crc('{0}', ?1, ?2))"
REPLACE_SUBMISSION = _BODY.format("submissions")
REPLACE_MANAGED = _BODY.format("managed")
INSERT_KEY = "INSERT INTO submission_keys (key, jobs, digest, at) VALUES (?,?,?,?)"
INSERT_BASE = "INSERT OR REPLACE INTO bases (seq, at, body) VALUES (?,?,?)"
INSERT_RESTART = "INSERT INTO restarts (seq, at) VALUES (?,?)"
INSERT_JOURNAL_ID = "INSERT OR REPLACE INTO journal_ids (first_run_id, id) VALUES (?,?)"
DELETE_SETTING = "DELETE FROM settings WHERE key = ?"
REPLACE_SETTING = "INSERT OR REPLACE INTO settings (key, value) VALUES (?,?)"


def write(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    """Write everything but the memory of the policy."""
    connection.executemany(INSERT_FACT, changes.facts)
    _write_jobs(connection, changes, state, batch)
    _write_runs(connection, changes, state, batch)
    _write_extras(connection, batch, state)
    if changes.are_nodes_changed:
        write_nodes(connection, state)
    if batch.chosen is not None:
        connection.execute(UPDATE_POLICY, _chosen(batch.chosen))
    write_meta(connection, state, changes.counters)


def _write_jobs(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    for id in changes.submitted:
        if connection.execute(SEEN_BEFORE, (id,)).fetchone() is not None:
            raise StoreError(f"there was a job {id} before; an id is never used again")
    connection.executemany(UPSERT_JOB, changes.job_rows(state))
    if batch.ended:
        connection.executemany(INSERT_HISTORY, changes.history_rows(batch))
        connection.executemany(DELETE_JOB, [(id,) for id in batch.ended])


def _write_runs(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    unknown: set[RunId] = batch.exits.keys() - changes.exited.keys()
    if unknown:
        raise StoreError(f"exit records without a RunExited in this batch: runs {sorted(unknown)}")
    if changes.granted:
        connection.executemany(INSERT_RUN, changes.granted_rows(state, batch.ended))
    if changes.changed:
        connection.executemany(UPDATE_RUN, changes.open_run_rows(state))
    if changes.revoked:
        connection.executemany(REVOKE_RUN, [(at, id) for id, at in changes.revoked.items()])
    if changes.exited:
        short = [(at, id) for id, at in changes.started.items() if id in changes.exited]
        connection.executemany(START_RUN, short)
        connection.executemany(EXIT_RUN, changes.exited_rows(batch.exits))


def _write_extras(connection: Connection, batch: Batch, state: State) -> None:
    if batch.submissions:
        bodies = [(id, dump(body)) for id, body in batch.submissions.items()]
        connection.executemany(REPLACE_SUBMISSION, bodies)
    if batch.managed:
        bodies = [(id, dump(body)) for id, body in batch.managed.items()]
        connection.executemany(REPLACE_MANAGED, bodies)
    if batch.settings:
        rows = [(key, dump(value)) for key, value in batch.settings.items() if value is not None]
        connection.executemany(REPLACE_SETTING, rows)
        gone = [(key,) for key, value in batch.settings.items() if value is None]
        connection.executemany(DELETE_SETTING, gone)
    for key, what in batch.keys.items():
        known = connection.execute(FIND_KEY, (key,)).fetchone()
        if known is not None:
            raise StoreError(f"the idempotency key {key!r} already stands for jobs {known[0]}")
        connection.execute(INSERT_KEY, (key, dump(list(what.jobs)), what.digest, instant(state.at) or 0.0))


def write_nodes(connection: Connection, state: State) -> None:
    rows = []
    for position, node in enumerate(state.ledger.nodes):
        ledger = state.ledger_of(node.name)
        out = ledger.out_slots[position]
        withdrawn = [index for index in range(out.bit_length()) if out >> index & 1]
        is_in = int(ledger.in_service[position])
        rows.append((position, node.name, dump(NODE.encode(node)), is_in, dump(withdrawn)))
    connection.executemany(REPLACE_NODE, rows)


def write_policy(connection: Connection, chosen: Chosen, memory: str) -> None:
    connection.execute(INSERT_POLICY, (*_chosen(chosen), memory))


def write_meta(connection: Connection, state: State, counters: Counters) -> None:
    last_seq, last_step, next_job_id = counters.last_seq, counters.last_step, counters.next_job_id
    row = (instant(state.at), last_seq, last_step, state.next_run_id, next_job_id, counters.commits)
    connection.execute(REPLACE_META, row)


def _chosen(chosen: Chosen) -> tuple[str, str, str, str]:
    options, placer_options = dump(dict(chosen.options)), dump(dict(chosen.placer_options))
    return chosen.policy, options, chosen.placer, placer_options
