"""The store: what commits and a reload cost, as ratios to plain SQLite in the same run."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from benchmarks.common import yardstick_s
from benchmarks.managers import share
from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster, Demand, Job, JobId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.store import Batch, Chosen, Store, SubmissionKey, changes, tables
from tiresias.store.checksums import Row, with_crc

SUBMISSION = {
    "command": ["python", "train.py"],
    "cwd": "/home/ann/bert",
    "env": {f"V{i}": "x" * 40 for i in range(60)},
}
CHOSEN = Chosen("tiresias-l", {}, "packed")


def store() -> None:
    """Commit 10,000 submissions in batches of 100, then 200 single ones, and load the journal again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        policy, placer = policies.make(CHOSEN.policy), placers.make(CHOSEN.placer)
        controller = Controller(State(Cluster.of(32, 8)), policy, placer)
        with Store.open(path) as journal:
            journal.begin(controller, CHOSEN)

            def submit(first: int, count: int) -> None:
                _submit(journal, controller, range(first, first + count))

            batches = _seconds(lambda n: submit(1 + 100 * n, 100), 100)
            singles = _seconds(lambda n: submit(10_001 + n, 1), 200)
        plain = _plain_inserts(Path(folder) / "plain-100.db", 100, 30)
        _show("batches of 100", batches, 100, plain, "more than 500 jobs per second wanted")
        plain = _plain_inserts(Path(folder) / "plain-1.db", 1, 200)
        _show("single jobs, 10,000 queued", singles, 1, plain, "p50 of less than 100 ms wanted")
        began = time.process_time()
        with Store.open(path) as journal:
            jobs = len(journal.load().state.jobs)
        reload_s = time.process_time() - began
    dictionary_s = yardstick_s()
    print(
        f"store: {jobs:,} active jobs are loaded in {reload_s:.2f} CPU seconds (less than 2 wanted),"
        f" {reload_s / dictionary_s:.0f} times as long as a million dictionary stores"
    )


def checksums() -> None:
    """What the checksums of rows cost: the same commits with and without them, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        seconds: dict[bool, list[float]] = {True: [], False: []}
        cpu = {True: 0.0, False: 0.0}
        singles: dict[bool, list[float]] = {True: [], False: []}
        journals = {
            has: _begun(Path(folder) / str(has) / "journal.db", has_checksums=has) for has in (True, False)
        }
        for number in range(300):
            order = (True, False) if number % 2 else (False, True)
            for has in order:
                _use(with_crc if has else _without_crc)
                began, cpu_began = time.perf_counter(), time.process_time()
                _submit(*journals[has], range(1 + 20 * number, 21 + 20 * number))
                seconds[has].append(time.perf_counter() - began)
                cpu[has] += time.process_time() - cpu_began
        for number in range(6001, 6601):
            for has in (True, False) if number % 2 else (False, True):
                _use(with_crc if has else _without_crc)
                began = time.perf_counter()
                _submit(*journals[has], range(number, number + 1))
                singles[has].append(time.perf_counter() - began)
        for journal, _ in journals.values():
            journal.close()
    ratio = share(seconds[True], 0.5) / share(seconds[False], 0.5)
    one = share(singles[True], 0.5) / share(singles[False], 0.5)
    print(
        f"checksums: a commit of 20 jobs takes {ratio:.2f} times as long as without them (p50;"
        f" {cpu[True] / cpu[False]:.2f} times the CPU time), a commit of one job {one:.2f} times"
    )


def _without_crc(table: str, row: Row) -> Row:
    return (*row, 0)


def _use(function: Callable[[str, Row], Row]) -> None:
    """Let commits use this function for the checksums of rows."""
    setattr(tables, "with_crc", function)  # noqa: B010  (the name is imported there)
    setattr(changes, "with_crc", function)  # noqa: B010


def _begun(path: Path, *, has_checksums: bool) -> tuple[Store, Controller]:
    policy, placer = policies.make(CHOSEN.policy), placers.make(CHOSEN.placer)
    controller = Controller(State(Cluster.of(32, 8)), policy, placer)
    journal = Store.open(path)
    if not has_checksums:
        for (name,) in journal._all("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            journal._write.execute(f"DROP TRIGGER {name}")
    journal.begin(controller, CHOSEN)
    return journal, controller


def _submit(journal: Store, controller: Controller, ids: range) -> None:
    """Submit these jobs in one step and commit them with what a manager stores of each."""
    at = float(ids[0])
    facts: list[f.Fact] = [
        f.JobSubmitted(at, Job(JobId(id), Demand(1 + id % 4), at, user="ann", name="bert")) for id in ids
    ]
    step, batch = Step(), Batch()
    controller.handle(facts, step)
    batch.add(facts, step)
    for id in ids:
        batch.submissions[JobId(id)] = SUBMISSION
    batch.keys[f"key-{ids[0]}"] = SubmissionKey([JobId(id) for id in ids])
    journal.commit(controller, batch)


def _plain_inserts(path: Path, rows: int, count: int) -> list[float]:
    """Seconds of durable transactions that insert the same submissions and nothing else."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    body = json.dumps(SUBMISSION)

    def insert(_: int) -> None:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t (body) VALUES (?)", [(body,)] * rows)
        connection.execute("COMMIT")

    taken = _seconds(insert, count)
    connection.close()
    return taken


def _seconds(action: Callable[[int], None], count: int) -> list[float]:
    taken = []
    for number in range(count):
        began = time.perf_counter()
        action(number)
        taken.append(time.perf_counter() - began)
    return taken


def _show(what: str, taken: list[float], rows: int, plain: list[float], wanted: str) -> None:
    p50, p99 = share(taken, 0.5), share(taken, 0.99)
    print(
        f"store: {what}: {len(taken) * rows / sum(taken):,.0f} jobs per second; p50 {p50 * 1e3:.2f} ms,"
        f" p99 {p99 * 1e3:.2f} ms, p50 {p50 / share(plain, 0.5):.1f} times that of plain SQLite ({wanted})"
    )
