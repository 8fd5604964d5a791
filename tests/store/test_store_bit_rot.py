"""A bit that flips in the file is found, or changes nothing that is stored."""

from __future__ import annotations

import marshal
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_worlds import a_controller, a_store, hand

from tiresias.core import facts as f
from tiresias.core.model import Demand, Job, JobId
from tiresias.store import Batch, Reader, Store, StoreError, SubmissionKey, replay
from tiresias.store.backup import backup, prepare
from tiresias.store.checksums import MEANS, in_bytes

FLIPS = 400


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed journal with rows in every table."""
    path = tmp_path_factory.mktemp("rot") / "journal.db"
    controller = a_controller()
    with a_store(path, controller) as store:
        for id in range(1, 13):
            batch = Batch()
            job = Job(JobId(id), Demand(1), float(id), user="ann", name="bert")
            batch.add(*hand(controller, f.JobSubmitted(float(id), job)))
            batch.submissions[JobId(id)] = {"command": ["python", "train.py"], "env": {"A": "x" * 50}}
            batch.managed[JobId(id)] = {"retries": 1}
            batch.keys[f"key-{id}"] = SubmissionKey([JobId(id)])
            store.commit(controller, batch)
        batch = Batch()
        run = next(iter(controller.state.runs.values()))
        batch.add(*hand(controller, f.RunStarted(20.0, run.id, 1.0)))
        batch.add(*hand(controller, f.RunExited(30.0, run.id, f.ExitCause.FINISHED, 10.0)))
        batch.endings[run.job_id] = {"reason": "Finished"}
        store.commit(controller, batch)
        store.set_setting("limits", {"ann": 4})
        store.add_token("secret", name="laptop", user="ann", role="user", at=1.0)
        assert store.damage() == []
    with Store.open(path) as store:
        store.load()
    return path


def content(path: Path) -> dict[str, list[Any]]:
    with sqlite3.connect(path) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    connection.close()
    return found


def is_reported(path: Path) -> bool:
    try:
        with Reader(path) as found:
            return bool(found.damage())
    except StoreError:
        return True


def is_refused(path: Path) -> bool:
    try:
        with Store.open(path) as store:
            store.load()
    except StoreError:
        return True
    return False


@pytest.mark.parametrize("check", [is_reported, is_refused])
def test_a_flipped_bit_is_found_by_doctor_and_by_a_start_or_changes_no_value(
    journal: Path, tmp_path: Path, check: Any
) -> None:
    good, original = content(journal), journal.read_bytes()
    rng, silent = random.Random(8), []
    for number in range(FLIPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "journal.db"
        where, bit = rng.randrange(len(original)), 1 << rng.randrange(8)
        path.write_bytes(_flipped(original, where, bit))
        before = path.read_bytes()
        if not check(path):
            path.write_bytes(before)  # a start adds a row
            try:
                is_same = content(path) == good
            except sqlite3.Error:
                is_same = False
            if not is_same:
                silent.append((where, bit))
        shutil.rmtree(folder)
    assert not silent


def test_a_name_in_the_schema_that_is_no_text_any_more_is_reported_as_damage(
    journal: Path, tmp_path: Path
) -> None:
    """SQLite repeats the name in its message, which is then no text either."""
    original, path = journal.read_bytes(), tmp_path / "journal.db"
    where = original.index(b"triggersubmission")
    for byte in range(where, where + 40):
        path.write_bytes(_flipped(original, byte, 0x80))
        assert is_refused(path), byte


@pytest.mark.parametrize(("table", "column"), [("policy", "memory"), ("bases", "body")])
def test_a_start_finds_every_flipped_bit_in_what_a_learning_policy_has_learned(
    tmp_path: Path, table: str, column: str
) -> None:
    """The memory of `tiresias` is the longest row of a journal, and the base contains it as well."""
    path = tmp_path / "journal.db"
    controller = a_controller("tiresias")
    with a_store(path, controller) as store:
        for id in range(1, 40):
            batch = Batch()
            job = Job(JobId(id), Demand(1), 100.0 * id, user=f"user-{id}", name=f"train-{id}")
            batch.add(*hand(controller, f.JobSubmitted(100.0 * id, job)))
            run = next(run for run in controller.state.runs.values() if run.job_id == id)
            batch.add(*hand(controller, f.RunStarted(100.0 * id + 1, run.id, 1.0)))
            batch.add(*hand(controller, f.RunExited(100.0 * id + 90, run.id, f.ExitCause.FINISHED, 89.0)))
            store.commit(controller, batch)
        store.compact(before_at=0.0, base_every_s=0.0)
        [(text,)] = store._all(f"SELECT {column} FROM {table} ORDER BY rowid DESC LIMIT 1")
    assert len(text) > 10_000
    original = path.read_bytes()
    with_flip = tmp_path / "flipped.db"
    rng = random.Random(12)
    for _ in range(40):
        at = rng.randrange(len(text) - 40)
        where = original.find(text[at : at + 40].encode())
        if where < 0:  # it lies across two pages of the file
            continue
        with_flip.write_bytes(_flipped(original, where, 1 << rng.randrange(7)))
        assert is_refused(with_flip), (where, at)


def test_a_replay_does_not_begin_with_an_older_base_that_is_damaged(tmp_path: Path) -> None:
    """A start reads the latest base only; what is replayed is read whole."""
    path = tmp_path / "journal.db"
    controller = a_controller()
    with a_store(path, controller) as store:
        batch = Batch()
        batch.add(*hand(controller, f.JobSubmitted(1.0, Job(JobId(1), Demand(1), 1.0))))
        store.commit(controller, batch)
        store.compact(before_at=0.0, base_every_s=0.0)
        replay(store)
        store._write.execute("UPDATE bases SET crc = crc + 1 WHERE seq = 0")
    with Store.open(path) as store:
        store.load()
        with pytest.raises(StoreError, match=r"row 0 of the table bases .* replays"):
            replay(store)


def _flipped(original: bytes, where: int, bit: int) -> bytes:
    return original[:where] + bytes([original[where] ^ bit]) + original[where + 1 :]


def test_a_damaged_row_is_named_with_what_depends_on_it_and_can_be_accepted(
    journal: Path, tmp_path: Path
) -> None:
    path = tmp_path / "home" / "journal.db"
    path.parent.mkdir()
    original = journal.read_bytes()
    assert original.count(b'{"ann":4}') == 1
    path.write_bytes(original.replace(b'{"ann":4}', b'{"ann":5}'))
    with pytest.raises(StoreError, match=r"row \d+ of the table settings .* one setting") as refused:
        Store.open(path)
    assert f"tir restore {path} --accept-damage" in str(refused.value)
    with pytest.raises(StoreError, match="no backup was made"):
        backup(path, tmp_path / "backup.db")
    prepare(path, tmp_path / "copy.db", accepts_damage=True)
    with Reader(tmp_path / "copy.db") as found:
        assert found.damage() == []
        assert found.setting("limits", {}) == {"ann": 5}


def test_every_column_of_every_table_is_in_its_checksum(tmp_path: Path) -> None:
    with Store.open(tmp_path / "journal.db") as store:
        tables = [name for (name,) in store._all("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert set(tables) == set(MEANS)
        for table in tables:
            columns = [row[1] for row in store._all(f"PRAGMA table_info({table})") if row[1] != "crc"]
            for end in ("inserted", "updated"):
                [(sql,)] = store._all("SELECT sql FROM sqlite_master WHERE name = ?", f"{table}_{end}")
                assert f"row_crc('{table}', {', '.join(f'NEW.{name}' for name in columns)})" in sql
                assert end == "inserted" or f"UPDATE OF {', '.join(columns)} ON" in sql


values = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(), st.binary()
)


@given(st.lists(values, max_size=20))
def test_the_bytes_of_a_checksum_are_those_that_marshal_writes(row: list[Any]) -> None:
    assert marshal.dumps(tuple(row), 2) == in_bytes(tuple(row))


def test_rows_that_bring_their_checksum_along_have_the_values_that_sqlite_returns(tmp_path: Path) -> None:
    """Integers and negative zeros in columns of floats come back as other values than were stored."""
    controller = a_controller()
    with a_store(tmp_path / "journal.db", controller) as store:
        batch = Batch()
        submitted = f.JobSubmitted(0, Job(JobId(1), Demand(1), 0, user="ann"))
        batch.add(*hand(controller, submitted, f.JobSubmitted(0, Job(JobId(2), Demand(1), -0.0))))
        run = next(iter(controller.state.runs.values()))
        batch.add(*hand(controller, f.RunStarted(1, run.id, 1)))
        store.commit(controller, batch)
        batch = Batch()
        batch.add(*hand(controller, f.JobCancelled(2, run.job_id)))
        batch.add(*hand(controller, f.RunExited(3, run.id, f.ExitCause.FINISHED, -0.0)))
        store.commit(controller, batch)
        assert store.damage() == []
        rows = store._all("SELECT typeof(started_at), typeof(revoked_at), typeof(progress_s) FROM runs")
        assert set(rows[:1]) == {("real", "real", "real")}
        assert [row[0] for row in store._all("SELECT revoked_at FROM runs WHERE id = ?", run.id)] == [2.0]


def test_an_update_without_a_checksum_gets_one_and_damage_stays_visible(tmp_path: Path) -> None:
    controller = a_controller()
    with a_store(tmp_path / "journal.db", controller) as store:
        batch = Batch()
        batch.add(*hand(controller, f.JobSubmitted(1.0, Job(JobId(1), Demand(1), 1.0))))
        store.commit(controller, batch)
        store._write.execute("UPDATE jobs SET runs = 7")
        assert store.damage() == []
        store._write.execute("UPDATE jobs SET runs = 8, crc = crc + 1")
        assert store.damage() != []
