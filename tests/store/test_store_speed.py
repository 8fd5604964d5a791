"""What a commit and a reload cost, next to plain SQLite in the same run. Run with -s to see the figures."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from store_worlds import a_controller, a_store, hand

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import Demand, Job, JobId
from tiresias.store import Batch, Store, SubmissionKey

SUBMISSION = {
    "command": ["python", "train.py"],
    "cwd": "/home/ann/bert",
    "env": {f"V{i}": "x" * 40 for i in range(60)},
}


def submit(store: Store, controller: Controller, ids: range) -> None:
    """One step that submits these jobs, as the manager does: with all it keeps of each."""
    batch = Batch()
    at = float(ids[0])
    facts = [
        f.JobSubmitted(at, Job(JobId(id), Demand(1 + id % 4), at, user="ann", name="bert")) for id in ids
    ]
    batch.add(*hand(controller, *facts))
    for id in ids:
        batch.submissions[JobId(id)] = SUBMISSION
    batch.keys[f"key-{ids[0]}"] = SubmissionKey([JobId(id) for id in ids])
    store.commit(controller, batch)


def times(action: Callable[[int], None], count: int) -> list[float]:
    """Seconds of each call, sorted."""
    taken = []
    for number in range(count):
        begin = time.perf_counter()
        action(number)
        taken.append(time.perf_counter() - begin)
    return sorted(taken)


def raw(path: Path, rows: int, count: int) -> list[float]:
    """Plain inserts of as many bytes, durable, so many rows a transaction."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    body = json.dumps(SUBMISSION)

    def insert(_: int) -> None:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t (body) VALUES (?)", [(body,)] * rows)
        connection.execute("COMMIT")

    taken = times(insert, count)
    connection.close()
    return taken


def told(what: str, taken: list[float], rows: int, plain: list[float]) -> None:
    total, middle, p99 = sum(taken), taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    ratio = middle / plain[len(plain) // 2]
    print(
        f"\n{what}: {len(taken) * rows / total:,.0f} jobs/s, a commit {middle * 1e3:.2f} ms"
        f" (p99 {p99 * 1e3:.2f} ms), {ratio:.1f} times plain SQLite"
    )


def test_commits_and_a_reload_of_10_000_jobs(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    controller = a_controller(nodes=32, gpus=8)
    with a_store(path, controller) as store:
        batches = times(lambda n: submit(store, controller, range(1 + 100 * n, 101 + 100 * n)), 100)
        told("batches of 100", batches, 100, raw(tmp_path / "raw100.db", 100, 30))
        singles = times(lambda n: submit(store, controller, range(10_001 + n, 10_002 + n)), 200)
        told("one at a time, 10,000 queued", singles, 1, raw(tmp_path / "raw1.db", 1, 200))
    begin = time.process_time()  # a machine that is busy with other things must not fail this
    with Store.open(path) as store:
        loaded = store.load()
    reload_s = time.process_time() - begin
    print(f"reload of {len(loaded.state.jobs):,} active jobs: {reload_s:.2f} s of the processor")
    assert len(loaded.state.jobs) == 10_200
    assert reload_s < 2.0
    assert singles[len(singles) // 2] < 0.1, "a submission may not take 100 ms"
    assert 100 * batches[50] < 20.0, "500 jobs/s are asked for"
