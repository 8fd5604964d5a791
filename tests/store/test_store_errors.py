"""Errors name the file, the cause and the next step, and nothing is lost."""

from __future__ import annotations

import json
import os
import resource
import select
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_worlds import a_controller, a_store, assert_same, hand

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.facts import ExitCause
from tiresias.core.model import Demand, Job, JobId, RunId
from tiresias.store import Batch, Chosen, Reader, Store, StoreError, SubmissionKey, database, lock


def submitted(id: int, at: float = 0.0, name: str = "") -> f.JobSubmitted:
    return f.JobSubmitted(at, Job(JobId(id), Demand(1), at, name=name))


def batch_of(controller: Controller, *facts: f.Fact) -> Batch:
    batch = Batch()
    batch.add(*hand(controller, *facts))
    return batch


def test_a_later_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    a_store(path, a_controller()).close()
    ours = len(database.migrations())
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {ours + 3}")
    connection.close()
    before = path.read_bytes()
    for open_it in (Store.open, Reader):
        with pytest.raises(StoreError, match=f"journal.db: the journal has version {ours + 3}") as error:
            open_it(path)
        assert f"up to {ours}" in str(error.value)
        assert "Install the later Tiresias again" in str(error.value)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"my thesis, chapter one. " * 100)
    with pytest.raises(StoreError, match=r"journal.db: cannot open the journal: it is not a SQLite database"):
        Store.open(path)
    assert path.read_bytes().startswith(b"my thesis")


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    with pytest.raises(StoreError, match="is not a journal of Tiresias; put it aside"):
        Store.open(path)


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    controller = a_controller()
    with a_store(path, controller) as store:
        store.commit(controller, batch_of(controller, *(submitted(id) for id in range(1, 400))))
        assert store.damage() == []
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for page in range(4096, size, 4096):
            file.seek(page)
            file.write(b"\xff" * 512)
    with pytest.raises(StoreError, match=r"journal.db: cannot .*: it is damaged .*restore a backup"):
        Store.open(path).load()


def test_no_store_is_left_open_by_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"x" * 4096)
    for _ in range(2):  # the second call fails in the same way, not because the first left the lock
        with pytest.raises(StoreError, match="not a SQLite database"):
            Store.open(path)


@pytest.fixture
def readonly_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # because root may write anywhere
        try:
            yield directory
        finally:
            os.seteuid(user)
            directory.chmod(0o700)


def test_a_directory_that_cannot_be_written_is_reported(readonly_directory: Path) -> None:
    with pytest.raises(StoreError, match=r"Permission denied.*can be written by this user") as error:
        Store.open(readonly_directory / "journal.db")
    assert str(readonly_directory) in str(error.value)
    with pytest.raises(StoreError, match="cannot open the journal: Permission denied"):
        Store.open(readonly_directory / "home" / "journal.db")


def test_a_reader_of_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere.db: cannot open the journal: it cannot be opened"):
        Reader(tmp_path / "nowhere.db")


def test_a_second_manager_gets_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    code = (
        "import sys; from pathlib import Path; from tiresias.store import Store\n"
        "store = Store.open(Path(sys.argv[1]), home=Path('/the/home'))\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match=rf"pid {first.pid}\) already uses the home /the/home") as error:
            Store.open(path)
        assert "tiresias down" in str(error.value)
        first.kill()
        first.wait()
        Store.open(path).close()


def test_a_process_cannot_open_it_twice_and_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The child outlives the manager, as a supervisor does."""
    path = tmp_path / "journal.db"
    code = (
        "import os, sys; from pathlib import Path; from tiresias.store import Store\n"
        "from tiresias.store.errors import StoreError\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "try: Store.open(Path(sys.argv[1]))\n"
        "except StoreError as error: print(f'pid {os.getpid()}' in str(error), flush=True)\n"
        "if os.fork() == 0: print('forked', flush=True)\n"
        "sys.stdin.buffer.raw.read(1)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as manager:
        assert manager.stdout is not None
        assert manager.stdout.readline() == b"True\n"
        assert manager.stdout.readline() == b"forked\n"
        with pytest.raises(StoreError, match="already uses"):
            Store.open(path)  # the child closed its copy, which does not release the lock of the manager
        manager.kill()
        manager.wait()
        assert not select.select([manager.stdout], [], [], 0)[0], "the child has ended"
        Store.open(path).close()


def test_a_closed_journal_is_free_even_if_a_forked_child_still_has_a_copy(tmp_path: Path) -> None:
    """A child closes its copy when it first runs, which may be late on a busy machine."""
    path = tmp_path / "journal.db"
    store = Store.open(path)
    copies = [os.dup(descriptor) for descriptor in lock._held]
    assert copies
    store.close()
    Store.open(path).close()
    for copy in copies:
        os.close(copy)


def test_a_lock_file_left_behind_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    (tmp_path / "journal.db.lock").write_text(json.dumps({"pid": 1, "home": "/old"}))
    Store.open(path).close()


def test_a_full_disk_loses_nothing_and_the_same_batch_may_be_committed_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    controller = a_controller()
    with a_store(path, controller) as store:
        store.commit(controller, batch_of(controller, submitted(1)))
        pages = store._write.execute("PRAGMA page_count").fetchone()[0]
        store._write.execute(f"PRAGMA max_page_count = {pages}")
        large = batch_of(controller, *(submitted(id, 1.0, "n" * 500) for id in range(2, 200)))
        for _ in range(2):
            with pytest.raises(StoreError, match=r"cannot commit: the disk is full .*free some space"):
                store.commit(controller, large)
            assert store.last_seq == 2
            assert [job.id for job in store.active()] == [1]
        store._write.execute("PRAGMA max_page_count = 1000000")
        store.commit(controller, large)
        assert [stored.seq for stored in store.facts(limit=10_000)] == list(range(1, store.last_seq + 1))
        assert_same(controller.state, store.load().state, controller.policy.save)


def test_a_write_that_exceeds_a_limit_loses_nothing(tmp_path: Path) -> None:
    """The files cannot grow, as when a quota is used up."""
    path = tmp_path / "journal.db"
    controller = a_controller()
    with a_store(path, controller) as store:
        store.commit(controller, batch_of(controller, submitted(1)))
        large = batch_of(controller, *(submitted(id, 1.0, "n" * 500) for id in range(2, 200)))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 65536, limits[1]))
        try:
            with pytest.raises(StoreError, match=r"cannot commit: .*everything acknowledged so far is safe"):
                store.commit(controller, large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert store.last_seq == 2
        store.commit(controller, large)
    with Store.open(path) as store:
        assert_same(controller.state, store.load().state, controller.policy.save)


def test_a_run_has_one_exit_record_for_ever(tmp_path: Path) -> None:
    controller = a_controller()
    with a_store(tmp_path / "journal.db", controller) as store:
        store.commit(controller, batch_of(controller, submitted(1)))
        exited = f.RunExited(5.0, RunId(1), ExitCause.FINISHED, 5.0)
        batch = batch_of(controller, f.RunStarted(1.0, RunId(1)), exited)
        batch.exits[RunId(1)] = {"code": 0}
        store.commit(controller, batch)
        again = Batch(steps=[([exited], [])], exits={RunId(1): {"code": 1}})
        with pytest.raises(
            StoreError, match="run 1: that run was never granted, or already has its one exit record"
        ):
            store.commit(controller, again)
        with pytest.raises(sqlite3.IntegrityError, match="one exit record, for ever"):
            store._write.execute("UPDATE runs SET exit = '{}' WHERE id = 1")
        run = store.run(RunId(1))
        assert run is not None
        assert run.exit == {"code": 0}


def test_batches_that_do_not_fit_the_journal_are_refused(tmp_path: Path) -> None:
    controller = a_controller()
    store = Store.open(tmp_path / "journal.db")
    with store:
        batch = batch_of(controller, submitted(1))
        with pytest.raises(StoreError, match="has not begun"):
            store.commit(controller, batch)
        with pytest.raises(StoreError, match="begins without jobs"):
            store.begin(controller, Chosen("tiresias-l"))
        with pytest.raises(StoreError, match="no State to load"):
            store.load()
        other = a_controller()
        store.begin(other, Chosen("tiresias-l"))
        with pytest.raises(StoreError, match="has begun already"):
            store.begin(other, Chosen("tiresias-l"))
        with pytest.raises(StoreError, match="job 9 is in the facts, but neither active nor ended"):
            store.commit(other, Batch(steps=[([f.JobHeld(0.0, JobId(9))], [])]))
        store.commit(other, batch_of(other, submitted(1)))
        last = batch_of(
            other, f.JobCancelled(1.0, JobId(1)), f.RunExited(1.0, RunId(1), ExitCause.FAILED, 0.0)
        )
        last.exits[RunId(44)] = {}
        with pytest.raises(StoreError, match=r"exit records without a RunExited in this batch: runs \[44\]"):
            store.commit(other, last)
        last.exits.clear()
        store.commit(other, last)
        with pytest.raises(StoreError, match="there was a job 1 before"):
            store.commit(other, batch_of(other, submitted(1, 2.0)))
        with pytest.raises(StoreError, match="written under the policy 'tiresias-l', not 'fifo'"):
            store.load(a_controller("fifo").policy)


def test_a_key_can_be_used_for_one_submission_only(tmp_path: Path) -> None:
    controller = a_controller()
    with a_store(tmp_path / "journal.db", controller) as store:
        batch = batch_of(controller, submitted(1), submitted(2))
        batch.keys["abc"] = SubmissionKey([JobId(1), JobId(2)], "digest")
        store.commit(controller, batch)
        assert store.submission_key("abc") == SubmissionKey([JobId(1), JobId(2)], "digest")
        assert store.submission_key("other") is None
        again = batch_of(controller, submitted(3))
        again.keys["abc"] = SubmissionKey([JobId(3)])
        with pytest.raises(StoreError, match=r"key 'abc' already stands for jobs \[1,2\]"):
            store.commit(controller, again)
        assert store.job(JobId(3)) is None, "nothing of a refused batch is stored"


def test_synchronous_is_one_of_three(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="synchronous='FAST' is not one of FULL, NORMAL, OFF"):
        Store.open(tmp_path / "journal.db", synchronous="FAST")
    Store.open(tmp_path / "journal.db", synchronous="NORMAL").close()


def test_a_removed_lock_file_lets_in_no_second_manager(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Store.open(path):
        (tmp_path / "journal.db.lock").unlink()
        code = (
            "import sys\nfrom pathlib import Path\nfrom tiresias.store import InUse, Store\n"
            "try: Store.open(Path(sys.argv[1]))\n"
            "except InUse: print('refused')\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
        assert done.stdout == "refused\n", done.stderr
    Store.open(path).close()
