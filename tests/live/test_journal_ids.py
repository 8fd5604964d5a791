"""A manager starts only if the run directories of its home belong to its journal."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tiresias.executors import run_files
from tiresias.live.start import open_manager
from tiresias.store import Store, StoreError
from tiresias.testing.live import LiveLab


def copied(home: Path, to: Path) -> Path:
    """A copy of the journal alone, made while no manager runs."""
    to.mkdir(exist_ok=True)
    return Path(shutil.copy(home / "journal.db", to / "journal.db"))


def test_a_journal_older_than_its_run_directories_starts_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lab = LiveLab(home)
    with lab:
        lab.until_ended(lab.submit("true"))
        lab.close()
        backup = copied(home, tmp_path / "backup")
        lab.manager = open_manager(home, lab.options)
        lab.until_ended(lab.submit("echo a secret of ann"))
    for name in ("journal.db", "journal.db.mark"):
        (home / name).unlink(missing_ok=True)
    shutil.copy(backup, home / "journal.db")
    with pytest.raises(StoreError) as refused:
        open_manager(home, lab.options)
    assert f"{home}/jobs/2: there is a directory of job 2" in str(refused.value)
    assert f"the next job of {home}/journal.db would be 2" in str(refused.value)
    assert f"tir restore {home}/journal.db" in str(refused.value)


def test_the_run_directories_of_another_journal_start_nothing(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with LiveLab(tmp_path / name) as lab:
            lab.until_ended(lab.submit("true"))
    one = tmp_path / "one"
    for path in one.glob("journal.db*"):
        path.unlink()
    for path in (tmp_path / "two").glob("journal.db*"):
        shutil.copy(path, one)
    with pytest.raises(
        StoreError, match=f"{one}/jobs: these run directories belong to the journal [0-9a-f]{{32}}"
    ):
        open_manager(one, lab.options)


def test_the_files_of_a_run_name_the_journal(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        id = lab.submit("true")
        lab.until_ended(id)
        [journal] = lab.manager.store.journal_ids().values()
        found = run_files.read(str(tmp_path / f"jobs/{id}/runs/1"), run_files.EXIT)
        assert found is not None
        assert len(journal) == 32
        assert found["journal"] == journal


def test_runs_of_before_the_migration_keep_the_empty_id_and_later_ones_get_the_new_id(tmp_path: Path) -> None:
    text = Path(__file__).with_name("journal_0_1_0.sql").read_text(encoding="utf-8")
    connection = sqlite3.connect(tmp_path / "journal.db")
    connection.executescript(text)
    [next_run_id] = connection.execute("SELECT next_run_id FROM meta").fetchone()
    connection.close()
    with Store.open(tmp_path / "journal.db") as store:
        assert store.journal_id_of(next_run_id - 1) == ""
        assert len(store.journal_id_of(next_run_id)) == 32


def test_a_home_of_the_version_before_goes_on_with_its_runs(tmp_path: Path) -> None:
    """As it was on the disk: the files name no journal, and the schema has version 4."""
    lab = LiveLab(tmp_path)
    with lab:
        id = lab.submit("sleep 600")
        lab.until_running(id)
        lab.close()
        as_before(tmp_path)
        lab.manager = open_manager(tmp_path, lab.options)
        assert lab.of(id).phase == "RUNNING"
        assert lab.of(id).runs == 1


def as_before(home: Path) -> None:
    """Take away what this version has added to a home."""
    for path in home.glob("jobs/*/runs/*/*.json"):
        body = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in body.items() if key != "journal"}))
    for path in [*home.glob("jobs/*/runs/*/run.json"), home / "jobs/journal.json", home / "journal.db.mark"]:
        path.unlink(missing_ok=True)
    connection = sqlite3.connect(home / "journal.db")
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for table in tables:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN crc")
    connection.execute("DROP TABLE journal_ids")
    connection.execute("ALTER TABLE meta DROP COLUMN commits")
    connection.execute("CREATE TRIGGER one_exit_for_ever BEFORE UPDATE ON runs WHEN 0 BEGIN SELECT 1; END")
    connection.execute("PRAGMA user_version = 4")
    connection.commit()
    connection.close()
