"""The SQL of a commit, and the functions that write a batch inside the transaction of the caller."""

from __future__ import annotations

from sqlite3 import Connection

from tiresias.core.state import State
from tiresias.store.batch import Batch, Chosen
from tiresias.store.changes import Changes, Counters
from tiresias.store.checksums import Row, with_crc
from tiresias.store.codec import NODE, dump
from tiresias.store.errors import StoreError
from tiresias.store.rows import ALL_RUN_COLUMNS, JOB_COLUMNS, instant, service_value

# The rows that are written most bring their checksum along; triggers add that of all others.
INSERT_FACT = (
    "INSERT INTO facts (seq, step, decided, at, kind, version, job, body, crc) VALUES (?,?,?,?,?,?,?,?,?)"
)

_JOB_COLUMNS = [name.strip() for name in JOB_COLUMNS.split(",")][1:]  # all but the id
INSERT_JOB = (
    f"INSERT INTO jobs (id, submitted_seq, {', '.join(_JOB_COLUMNS)}, crc)"
    f" VALUES ({','.join('?' * (len(_JOB_COLUMNS) + 3))})"
)
UPDATE_JOB = f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in (*_JOB_COLUMNS, 'crc'))} WHERE id = ?"
DELETE_JOB = "DELETE FROM jobs WHERE id = ?"
HISTORY_COLUMNS = (
    "ended_seq, id, job, user, tenant, name, gpus, phase, submitted_at, first_started_at, ended_at, runs,"
    " preemptions, executed_s, service_gpu_s, progress_s, ending"
)
INSERT_HISTORY = f"INSERT INTO history ({HISTORY_COLUMNS}, crc) VALUES ({','.join('?' * 18)})"
SEEN_BEFORE = "SELECT 1 FROM jobs WHERE id = ?1 UNION ALL SELECT 1 FROM history WHERE id = ?1"

INSERT_RUN = f"INSERT INTO runs ({ALL_RUN_COLUMNS}, crc) VALUES ({','.join('?' * 14)})"
UPDATE_RUN = (
    "UPDATE runs SET started_at = ?, revoked_at = ?, exited_at = ?, progress_s = ?, progress_at = ?,"
    " speed = ?, cause = ?, exit = ?, crc = ? WHERE id = ?"
)

REPLACE_NODE = "INSERT OR REPLACE INTO nodes (position, name, node, in_service, out_slots) VALUES (?,?,?,?,?)"
INSERT_META = (
    "INSERT INTO meta (one, at, last_seq, last_step, next_run_id, next_job_id, commits, crc)"
    " VALUES (?,?,?,?,?,?,?,?)"
)
UPDATE_META = (
    "UPDATE meta SET one = ?, at = ?, last_seq = ?, last_step = ?, next_run_id = ?, next_job_id = ?,"
    " commits = ?, crc = ?"
)
COUNT_COMMIT = "UPDATE meta SET commits = ?"
INSERT_POLICY = "INSERT INTO policy (one, name, options, placer, placer_options, memory) VALUES (1,?,?,?,?,?)"
UPDATE_POLICY = "UPDATE policy SET name = ?, options = ?, placer = ?, placer_options = ?"
FIND_KEY = "SELECT jobs FROM submission_keys WHERE key = ?"
UPDATE_MEMORY = "UPDATE policy SET memory = ?"
REPLACE_SUBMISSION = "INSERT OR REPLACE INTO submissions (job, body, crc) VALUES (?,?,?)"
REPLACE_MANAGED = "INSERT OR REPLACE INTO managed (job, body, crc) VALUES (?,?,?)"
INSERT_KEY = "INSERT INTO submission_keys (key, jobs, digest, at, crc) VALUES (?,?,?,?,?)"
INSERT_BASE = "INSERT OR REPLACE INTO bases (seq, at, body) VALUES (?,?,?)"
INSERT_RESTART = "INSERT INTO restarts (seq, at) VALUES (?,?)"
INSERT_JOURNAL_ID = "INSERT OR REPLACE INTO journal_ids (first_run_id, id) VALUES (?,?)"
DELETE_SETTING = "DELETE FROM settings WHERE key = ?"
REPLACE_SETTING = "INSERT OR REPLACE INTO settings (key, value) VALUES (?,?)"


def write(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    """Write everything but the memory of the policy."""
    connection.executemany(INSERT_FACT, changes.facts)
    _write_jobs(connection, changes, state, batch)
    _write_runs(connection, changes)
    _write_extras(connection, batch, state)
    if changes.are_nodes_changed:
        write_nodes(connection, state)
    if batch.chosen is not None:
        connection.execute(UPDATE_POLICY, _chosen(batch.chosen))
    connection.execute(UPDATE_META, _meta(state, changes.counters))


def _write_jobs(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    for id in changes.old_ids:
        if connection.execute(SEEN_BEFORE, (id,)).fetchone() is not None:
            raise StoreError(f"there was a job {id} before; an id is never used again")
    if changes.submitted:
        connection.executemany(INSERT_JOB, changes.new_job_rows(state))
    connection.executemany(UPDATE_JOB, changes.changed_job_rows(state))
    if batch.ended:
        connection.executemany(INSERT_HISTORY, changes.history_rows(batch))
        connection.executemany(DELETE_JOB, [(id,) for id in batch.ended])


def _write_runs(connection: Connection, changes: Changes) -> None:
    if changes.granted:
        connection.executemany(INSERT_RUN, changes.new_run_rows())
    if changes.changed:
        connection.executemany(UPDATE_RUN, changes.changed_run_rows())


def _write_extras(connection: Connection, batch: Batch, state: State) -> None:
    if batch.submissions:
        bodies = [with_crc("submissions", (id, dump(body))) for id, body in batch.submissions.items()]
        connection.executemany(REPLACE_SUBMISSION, bodies)
    if batch.managed:
        bodies = [with_crc("managed", (id, dump(body))) for id, body in batch.managed.items()]
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
        row = (key, dump(list(what.jobs)), what.digest, instant(state.at) or 0.0)
        connection.execute(INSERT_KEY, with_crc("submission_keys", row))


def write_nodes(connection: Connection, state: State) -> None:
    rows = []
    for position, node in enumerate(state.ledger.nodes):
        ledger = state.ledger_of(node.name)
        out = ledger.out_slots[position]
        withdrawn = [index for index in range(out.bit_length()) if out >> index & 1]
        is_in = service_value(in_service=ledger.in_service[position], silent=ledger.silent[position])
        rows.append((position, node.name, dump(NODE.encode(node)), is_in, dump(withdrawn)))
    connection.executemany(REPLACE_NODE, rows)


def write_policy(connection: Connection, chosen: Chosen, memory: str) -> None:
    connection.execute(INSERT_POLICY, (*_chosen(chosen), memory))


def write_meta(connection: Connection, state: State, counters: Counters) -> None:
    connection.execute(INSERT_META, _meta(state, counters))


def _meta(state: State, counters: Counters) -> Row:
    last_seq, last_step, next_job_id = counters.last_seq, counters.last_step, counters.next_job_id
    row = (1, instant(state.at), last_seq, last_step, state.next_run_id, next_job_id, counters.commits)
    return with_crc("meta", row)


def _chosen(chosen: Chosen) -> tuple[str, str, str, str]:
    options, placer_options = dump(dict(chosen.options)), dump(dict(chosen.placer_options))
    return chosen.policy, options, chosen.placer, placer_options
