"""A commit is durable when it returns, and no secret is stored in plain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_worlds import a_controller, a_store

from tiresias.store import Store

FULL, NORMAL, OFF = 2, 1, 0  # as SQLite numbers them


def synchronous_of(store: Store) -> int:
    """How the connection that writes waits for the disk; SQLite does not store it in the file."""
    return int(store._write.execute("PRAGMA synchronous").fetchone()[0])


def test_a_store_waits_for_the_disk_at_every_commit_unless_asked_otherwise(tmp_path: Path) -> None:
    with Store.open(tmp_path / "journal.db") as store:
        assert synchronous_of(store) == FULL


@pytest.mark.parametrize(("name", "number"), [("FULL", FULL), ("NORMAL", NORMAL), ("OFF", OFF)])
def test_a_store_waits_for_the_disk_as_asked(tmp_path: Path, name: str, number: int) -> None:
    with Store.open(tmp_path / "journal.db", synchronous=name) as store:
        assert synchronous_of(store) == number


def test_the_name_of_a_new_journal_is_on_disk_before_anything_is_stored_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    Store.open(tmp_path / "journal.db").close()
    assert synced == [str(tmp_path)]
    Store.open(tmp_path / "journal.db").close()
    assert synced == [str(tmp_path)], "it has its name already"


def test_a_token_that_is_valid_is_in_no_file_of_the_journal(tmp_path: Path) -> None:
    store = a_store(tmp_path / "journal.db", a_controller("fifo", nodes=1, gpus=1))
    store.add_token("very-secret", name="laptop", user="ann", role="admin", at=5.0)
    for path in tmp_path.iterdir():
        assert b"very-secret" not in path.read_bytes(), path
    assert store.token("very-secret") is not None
    store.close()
    stored = (tmp_path / "journal.db").read_bytes()
    assert b"laptop" in stored, "this is where it would be"
    assert b"very-secret" not in stored
