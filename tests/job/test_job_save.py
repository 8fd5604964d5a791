"""A checkpoint is either the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from contextlib import nullcontext

import pytest

from tiresias.job import save
from tiresias.job.reports import read_reports


def test_it_replaces_the_file_and_makes_directories(tmp_path):
    path = tmp_path / "a" / "b" / "model"
    save(path, lambda file: file.write(b"one"))
    save(str(path), lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["model"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    save(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        save(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "latest").symlink_to("elsewhere/model")
    save(tmp_path / "latest", lambda file: file.write(b"new"))
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "elsewhere/model").read_bytes() == b"new"


@pytest.mark.parametrize(("number", "is_raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_directory_that_cannot_be_synced_is_no_error_but_a_failing_disk_is(
    tmp_path, monkeypatch, number, is_raised
):
    def sync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(OSError, match="Input/output") if is_raised else nullcontext():
        save(tmp_path / "model", lambda file: file.write(b"new"))
    assert (tmp_path / "model").read_bytes() == b"new"


def test_a_name_without_directory_is_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("model", lambda file: file.write(b"here"))
    assert (tmp_path / "model").read_bytes() == b"here"


def test_temporary_files_of_killed_processes_are_removed_later(tmp_path):
    left, fresh, other = (tmp_path / f".{name}.part" for name in ("model.1.1", "model.2.2", "other.1.1"))
    for path in (left, fresh, other):
        path.touch()
    old = time.time() - 3600
    os.utime(left, (old, old))
    os.utime(other, (old, old))
    save(tmp_path / "model", lambda file: file.write(b"new"))
    assert sorted(os.listdir(tmp_path)) == [".model.2.2.part", ".other.1.1.part", "model"]


def test_a_process_killed_while_saving_leaves_the_old_checkpoint(trainings):
    code = """
        import pathlib, signal
        from tiresias import job
        def write(file):
            file.write(b"half")
            file.flush()
            pathlib.Path("ready").touch()
            signal.pause()
        job.save("model", lambda file: file.write(b"old"))
        job.save("model", write)
        """
    training = trainings.start(code)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGKILL)
    training.wait(30)
    assert (trainings.path / "model").read_bytes() == b"old"


SAVING = """
import pathlib
from tiresias import job

job.report(step=3, total_steps=9)
job.save("elsewhere", lambda file: file.write(b"not a checkpoint"))
job.report(step=4)
job.save(job.checkpoint_dir / "model", lambda file: file.write(b"a checkpoint"))
job.saved(7)
"""


def test_what_is_saved_among_the_checkpoints_is_reported_with_its_step(trainings):
    assert trainings.start(SAVING).wait(30) == 0
    reports = read_reports(trainings.run_dir).reports
    assert [(report.step, report.saved) for report in reports if report.saved] == [(4, True), (7, True)]
    assert [report.total_steps for report in reports] == [9] * len(reports)


def test_outside_of_tiresias_nothing_is_reported(trainings):
    assert trainings.start(SAVING, inside=False).wait(30) == 0
    assert list(trainings.run_dir.iterdir()) == []
