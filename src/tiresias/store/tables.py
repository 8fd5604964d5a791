"""Writing what a batch changes, inside the caller's transaction."""

from __future__ import annotations

from sqlite3 import Connection

from tiresias.core.model import RunId
from tiresias.core.state import State
from tiresias.store import statements as sql
from tiresias.store.batch import Batch, Chosen
from tiresias.store.changes import Changes, Counters
from tiresias.store.codec import NODE, dump
from tiresias.store.errors import StoreError
from tiresias.store.rows import instant


def write(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    """Everything but the policy's memory."""
    connection.executemany(sql.INSERT_FACT, changes.facts)
    _write_jobs(connection, changes, state, batch)
    _write_runs(connection, changes, state, batch)
    _write_extras(connection, batch, state)
    if changes.are_nodes_changed:
        write_nodes(connection, state)
    if batch.chosen is not None:
        connection.execute(sql.UPDATE_POLICY, _chosen(batch.chosen))
    write_meta(connection, state, changes.counters)


def _write_jobs(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    for id in changes.submitted:
        if connection.execute(sql.SEEN_BEFORE, (id,)).fetchone() is not None:
            raise StoreError(f"there was a job {id} before; ids are never used again")
    connection.executemany(sql.UPSERT_JOB, changes.job_rows(state))
    if batch.ended:
        connection.executemany(sql.INSERT_HISTORY, changes.history_rows(batch))
        connection.executemany(sql.DELETE_JOB, [(id,) for id in batch.ended])


def _write_runs(connection: Connection, changes: Changes, state: State, batch: Batch) -> None:
    strange: set[RunId] = batch.exits.keys() - changes.exited.keys()
    if strange:
        raise StoreError(f"exit records without a RunExited in this batch: runs {sorted(strange)}")
    if changes.granted:
        connection.executemany(sql.INSERT_RUN, changes.granted_rows(state, batch.ended))
    if changes.moved:
        connection.executemany(sql.MOVE_RUN, changes.moved_rows(state))
    if changes.revoked:
        connection.executemany(sql.REVOKE_RUN, [(at, id) for id, at in changes.revoked.items()])
    if changes.exited:
        short = [(at, id) for id, at in changes.started.items() if id in changes.exited]
        connection.executemany(sql.START_RUN, short)
        connection.executemany(sql.EXIT_RUN, changes.exited_rows(batch.exits))


def _write_extras(connection: Connection, batch: Batch, state: State) -> None:
    if batch.submissions:
        bodies = [(id, dump(body)) for id, body in batch.submissions.items()]
        connection.executemany(sql.REPLACE_SUBMISSION, bodies)
    if batch.notes:
        connection.executemany(sql.REPLACE_NOTE, [(id, dump(body)) for id, body in batch.notes.items()])
    if batch.settings:
        rows = [(key, dump(value)) for key, value in batch.settings.items()]
        connection.executemany(sql.REPLACE_SETTING, rows)
    for key, what in batch.keys.items():
        known = connection.execute(sql.FIND_KEY, (key,)).fetchone()
        if known is not None:
            raise StoreError(f"the idempotency key {key!r} already stands for jobs {known[0]}")
        connection.execute(
            sql.INSERT_KEY, (key, dump(list(what.jobs)), what.digest, instant(state.at) or 0.0)
        )


def write_nodes(connection: Connection, state: State) -> None:
    rows = []
    for position, node in enumerate(state.ledger.nodes):
        books = state.ledger_of(node.name)
        out = books.out_slots[position]
        gone = [index for index in range(out.bit_length()) if out >> index & 1]
        is_in = int(books.in_service[position])
        rows.append((position, node.name, dump(NODE.encode(node)), is_in, dump(gone)))
    connection.executemany(sql.REPLACE_NODE, rows)


def write_policy(connection: Connection, chosen: Chosen, memory: str) -> None:
    connection.execute(sql.INSERT_POLICY, (*_chosen(chosen), memory))


def write_meta(connection: Connection, state: State, counters: Counters) -> None:
    last_seq, last_step, next_job_id = counters.last_seq, counters.last_step, counters.next_job_id
    row = (instant(state.at), last_seq, last_step, state.next_run_id, next_job_id)
    connection.execute(sql.REPLACE_META, row)


def _chosen(chosen: Chosen) -> tuple[str, str, str, str]:
    options, placer_options = dump(dict(chosen.options)), dump(dict(chosen.placer_options))
    return chosen.policy, options, chosen.placer, placer_options
