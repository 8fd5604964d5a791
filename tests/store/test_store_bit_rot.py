"""A bit that flips in the file is found, or changes nothing that is stored."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from store_worlds import a_controller, a_store, hand

from tiresias.core import facts as f
from tiresias.core.model import Demand, Job, JobId
from tiresias.store import Batch, Reader, Store, StoreError, SubmissionKey
from tiresias.store.backup import backup, prepare
from tiresias.store.checksums import MEANS

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
    except (StoreError, ValueError):
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
        path.write_bytes(original[:where] + bytes([original[where] ^ bit]) + original[where + 1 :])
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
