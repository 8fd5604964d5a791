"""Backups are whole while the manager runs; a restored one takes no run of others for its own."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.live.errors import Invalid
from tiresias.live.restore import restore
from tiresias.live.start import open_manager
from tiresias.store import InUse, Reader, StoreError
from tiresias.store.backup import backup
from tiresias.testing.executors import processes_of
from tiresias.testing.live import ADMIN, LiveLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(tmp_path / "home") as lab:
        yield lab


def reopen(lab: LiveLab) -> None:
    lab.manager = open_manager(lab.home, lab.options)


def test_a_backup_of_a_running_manager_has_every_commit_and_only_its_owner_can_read_it(
    lab: LiveLab, tmp_path: Path
) -> None:
    ids = [lab.submit("true") for _ in range(5)]
    file = tmp_path / "backup.db"
    copied = backup(lab.home / "journal.db", file)
    with Reader(file) as found:
        assert [job.id for job in found.active()] == ids
        assert found.last_seq == copied.last_seq == lab.manager.store.last_seq
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(StoreError, match="this file exists"):
        backup(lab.home / "journal.db", file)


def test_after_a_restore_no_job_gets_the_directory_or_the_exit_of_a_forgotten_one(
    lab: LiveLab, tmp_path: Path
) -> None:
    kept = lab.submit("echo kept")
    lab.until_ended(kept)
    file = tmp_path / "backup.db"
    backup(lab.home / "journal.db", file)
    forgotten = lab.submit("echo a secret of ann")
    lab.until_ended(forgotten)
    (lab.home / f"jobs/{forgotten}/checkpoint/model").write_text("weights")
    lab.close()
    done = restore(lab.home, file, stamp="1")
    assert done.aside == lab.home / "set-aside-1"
    assert (done.aside / f"jobs/{forgotten}/checkpoint/model").read_text() == "weights"
    assert stat.S_IMODE(done.aside.stat().st_mode) == 0o700
    reopen(lab)
    again = lab.submit("sh -c 'echo new; exit 3'", retries=0)
    [ended] = lab.until_ended(again)
    assert (again, ended.phase, lab.output(again)) == (forgotten, "FAILED", "new\n")
    assert not list((lab.home / f"jobs/{again}/checkpoint").iterdir())
    assert lab.output(kept) == "kept\n"


def test_the_directory_of_a_later_run_of_a_job_that_the_backup_knows_is_set_aside(
    lab: LiveLab, tmp_path: Path
) -> None:
    """Its run has the job, the number and the id that the next run after the restore will have."""
    id = lab.submit("sh -c 'test $TIRESIAS_RUN_ID = 2 || exec sleep 600'")
    lab.until_running(id)
    file = tmp_path / "backup.db"
    backup(lab.home / "journal.db", file)
    lab.manager.requests.requeue(ADMIN, id)
    lab.until_ended(id)
    lab.close()
    restore(lab.home, file, stamp="1")
    assert (lab.home / f"set-aside-1/jobs/{id}/runs/2/exit.json").exists()
    assert not (lab.home / f"jobs/{id}/runs/2").exists()
    reopen(lab)
    assert lab.manager.state.jobs.keys() == {id}


def test_living_runs_that_the_backup_does_not_know_are_named_then_ended(lab: LiveLab, tmp_path: Path) -> None:
    known = lab.submit("sleep 600")
    lab.until_running(known)
    file = tmp_path / "backup.db"
    backup(lab.home / "journal.db", file)
    unknown = lab.submit("sleep 600")
    lab.until_running(unknown)
    lab.close()
    with pytest.raises(Invalid, match=rf"still running, the first in {lab.home}/jobs/{unknown}/runs/1"):
        restore(lab.home, file, stamp="1")
    assert not (lab.home / "set-aside-1").exists()
    restore(lab.home, file, stamp="2", ends_runs=True)
    assert not processes_of(lab.home / f"jobs/{unknown}")
    reopen(lab)
    assert lab.of(known).phase == "RUNNING"
    assert processes_of(lab.home / f"jobs/{known}")


def test_a_restore_while_a_manager_runs_is_refused(lab: LiveLab, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    backup(lab.home / "journal.db", file)
    with pytest.raises(InUse, match="another manager"):
        restore(lab.home, file, stamp="1")


def crashed(lab: LiveLab, to: Path) -> Path:
    """The home as a manager that was killed leaves it, with a write-ahead log."""
    shutil.copytree(lab.home, to, ignore=shutil.ignore_patterns("*.sock", "news", "journal.db-shm"))
    assert (to / "journal.db-wal").stat().st_size > 0
    return to


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_a_write_ahead_log_that_is_lost_or_cut_off_is_noticed(
    lab: LiveLab, tmp_path: Path, left: float
) -> None:
    for _ in range(3):
        lab.until_ended(lab.submit("true"))
    home = crashed(lab, tmp_path / "crashed")
    wal = home / "journal.db-wal"
    os.truncate(wal, int(wal.stat().st_size * left)) if left else wal.unlink()
    with pytest.raises(StoreError, match=r"the last \d+ commits are missing") as refused:
        open_manager(home, lab.options)
    assert "tir restore" in str(refused.value)


def test_a_journal_that_lost_its_log_can_be_continued_with_restore(lab: LiveLab, tmp_path: Path) -> None:
    lab.until_ended(lab.submit("true"))
    lab.close()
    reopen(lab)
    lab.until_ended(lab.submit("true"))
    home = crashed(lab, tmp_path / "crashed")
    (home / "journal.db-wal").unlink()
    with pytest.raises(StoreError, match=r"the last \d+ commits are missing .* journal.db-wal was lost"):
        open_manager(home, lab.options)
    restore(home, home / "journal.db", stamp="1")
    with LiveLab(home) as again:
        assert again.until_ended(again.submit("true"))[0].phase == "SUCCEEDED"
    assert (home / "set-aside-1/jobs/2").exists()


def test_a_killed_manager_that_left_its_log_is_opened(lab: LiveLab, tmp_path: Path) -> None:
    id = lab.submit("true")
    lab.until_ended(id)
    with LiveLab(crashed(lab, tmp_path / "crashed")) as again:
        assert again.of(id).phase == "SUCCEEDED"


def test_a_journal_that_was_removed_is_not_begun_anew(lab: LiveLab) -> None:
    lab.close()
    (lab.home / "journal.db").unlink()
    with pytest.raises(StoreError, match="the journal is missing"):
        open_manager(lab.home, lab.options)
    assert not (lab.home / "journal.db").exists()
    (lab.home / "journal.db.mark").unlink()
    reopen(lab)
