"""A journal of every released version opens, and its content is still there."""

from __future__ import annotations

import json
import re
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest
from store_worlds import a_controller, a_store, hand

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import JobId, Phase, RunId
from tiresias.store import Batch, Chosen, Reader, Store, StoreError, database
from tiresias.store.rows import JOB_COLUMNS, NODE_COLUMNS, RUN_COLUMNS, from_json

V1 = Path(__file__).with_name("store_v1.sql")
"""The schema of version 1. Never edit it: it stands for the journals that were written with it."""

V1_ROWS = """
INSERT INTO facts VALUES (1,1,0,1000.5,'JobSubmitted',1,7,
  '{"at":1000.5,"job":{"id":7,"demand":{"gpus":2},"submitted_at":1000.5,"user":"ann","name":"bert"}}');
INSERT INTO facts VALUES (2,1,1,1000.5,'RunGranted',1,7,
  '{"at":1000.5,"run_id":1,"job_id":7,"allocation":[[0,3]]}');
INSERT INTO facts VALUES (3,2,0,1003.25,'RunStarted',1,7,'{"at":1003.25,"run_id":1,"speed":1.0}');
INSERT INTO jobs VALUES (7,1,'{"id":7,"demand":{"gpus":2},"submitted_at":1000.5,"user":"ann","name":"bert"}',
  'RUNNING',0,1,0,1000.5,NULL,1000.5,0.0,0.0,0.0);
INSERT INTO submissions VALUES (7,'{"command":["python","train.py"]}');
INSERT INTO notes VALUES (7,'{"retries":1}');
INSERT INTO runs VALUES (1,7,1,'[[0,3]]',1000.5,1003.25,NULL,NULL,0.0,1003.25,1.0,NULL,NULL);
INSERT INTO history VALUES (0,6,'{"id":6,"demand":{"gpus":1},"submitted_at":900.0}','ann','','gpt',1,'FAILED',
  900.0,901.0,960.0,1,0,59.0,59.0,50.0,'{"reason":"OutOfMemory"}');
INSERT INTO nodes VALUES (0,'box','{"name":"box","gpus":4,"rack":""}',1);
INSERT INTO meta VALUES (1,1003.25,3,2,2,8);
INSERT INTO policy VALUES (1,'fifo','{}','packed','{}','null');
INSERT INTO bases VALUES (0,NULL,
  '[null,1,[[0,"{\\"name\\":\\"box\\",\\"gpus\\":4}",1]],[],[],["fifo","{}","packed","{}","null"]]');
INSERT INTO settings VALUES ('max_gpus_per_user','8');
"""


def a_journal_of_version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(V1.read_text(encoding="utf-8") + V1_ROWS)
    connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def test_version_1_opens_and_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    a_journal_of_version_1(path)
    with Store.open(path) as store:
        assert store.setting("max_gpus_per_user", 0) == 8
        loaded = store.load()
        job = loaded.state.jobs[JobId(7)]
        assert (job.job.user, job.gpus, job.phase) == ("ann", 2, Phase.RUNNING)
        assert job.run is not None
        assert (job.run.started_at, job.run.allocation) == (1003.25, ((0, 3),))
        assert loaded.submissions == {7: {"command": ["python", "train.py"]}}
        assert loaded.managed == {7: {"retries": 1}}
        ended = store.job(JobId(6))
        assert ended is not None
        assert (ended.phase, ended.executed_s, ended.ending) == (
            Phase.FAILED,
            59.0,
            {"reason": "OutOfMemory"},
        )
        assert [job.id for job in store.active()] == [7]
        assert loaded.state.ledger.free == 2
        assert [type(stored.fact) for stored in store.facts_of_job(JobId(7))] == [
            f.JobSubmitted,
            f.RunGranted,
            f.RunStarted,
        ]
        assert store.next_job_id == 8
        fresh = a_controller("fifo")
        controller = Controller(loaded.state, fresh.policy, fresh.placer)
        batch = Batch()
        batch.add(*hand(controller, f.RunExited(1010.0, RunId(1), f.ExitCause.FINISHED, 6.75)))
        assert store.commit(controller, batch) == 4


def test_the_first_migration_makes_the_schema_of_version_1() -> None:
    """Only the comments of a released migration may be edited."""
    present = files("tiresias.store").joinpath("schema", "0001_start.sql").read_text(encoding="utf-8")
    assert without_comments(present) == without_comments(V1.read_text(encoding="utf-8")), (
        "add another migration"
    )


def test_every_table_is_on_the_page_about_the_store(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/what-is-stored.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", "".join(rows)))
    with Store.open(tmp_path / "journal.db") as store:
        tables = {name for (name,) in store._all("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert named == tables


def test_a_base_of_version_1_gets_the_columns_that_were_added_since() -> None:
    node, job = [0, "{}", 1], [7, "{}", "RUNNING", 0, 1, 0, None, None, 1.0, 0.0, 0.0, 0.0]
    run = [1, 7, "[[0,3]]", 1.0, None, 0.0, 1.0, 1.0]
    rows = from_json(json.dumps([1.0, 2, [node], [job], [run], ["fifo", "{}", "packed", "{}", "null"]]))
    for columns, table in ((NODE_COLUMNS, rows.nodes), (JOB_COLUMNS, rows.jobs), (RUN_COLUMNS, rows.runs)):
        assert len(table[0]) == len(columns.split(","))


def without_comments(sql: str) -> list[str]:
    return re.sub("--.*", "", sql).split()


def test_a_migration_and_its_number_are_written_in_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    a_journal_of_version_1(path)
    connection = sqlite3.connect(path, isolation_level=None)
    known = [
        V1.read_text(encoding="utf-8"),
        "ALTER TABLE jobs ADD COLUMN mood TEXT;\nCREATE TABLE moods (m);",
    ]
    database.migrate(connection, path, known)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT id, mood FROM jobs").fetchall() == [(7, None)]
    with pytest.raises(StoreError, match="cannot bring the journal to version 3"):
        database.migrate(connection, path, [*known, "CREATE TABLE half (a);\nCREATE TABLE moods (again);"])
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)
    connection.close()


def test_a_trigger_is_one_statement() -> None:
    assert sum("CREATE TRIGGER" in part for part in database._statements(database.migrations()[0])) == 1


def test_a_reader_does_not_migrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    a_store(path, a_controller()).close()
    known = database.migrations()
    now, later = len(known), len(known) + 1
    monkeypatch.setattr(database, "migrations", lambda: [*known, "SELECT 1;"])
    with pytest.raises(StoreError, match=rf"has version {now}, .* reads version {later}; start the manager"):
        Reader(path)


def test_only_the_owner_can_read_a_new_journal(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.db"
    controller = a_controller()
    with Store.open(path) as store:
        assert store.is_new
        store.begin(controller, Chosen("tiresias-l", {"queues": "auto"}))
        assert not store.is_new
        assert store.chosen() == Chosen("tiresias-l", {"queues": "auto"})
        names = {each.name for each in path.parent.iterdir()}
        assert names == {f"journal.db{end}" for end in ("", "-wal", "-shm", ".lock", ".mark")}
        for each in path.parent.iterdir():
            assert each.stat().st_mode & 0o077 == 0, each.name
    with Store.open(path) as store:
        assert not store.is_new
        assert store.load().state.jobs == {}
