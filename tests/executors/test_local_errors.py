"""Other users, full disks and directories that cannot be written: the exit of the run says what failed."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.model import RunId
from tiresias.executors.base import Identity
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import until

R1 = RunId(1)
IS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")
SOMEBODY = Identity(NOBODY.pw_uid, NOBODY.pw_gid, (NOBODY.pw_gid,), "nobody", NOBODY.pw_dir)
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root, to become another user or to mount")


@needs_root
def test_a_worker_runs_as_the_submitter(bench):
    spec = bench.shell(
        'id -u; id -g; id -G; echo $HOME $USER; echo 1 > "$TIRESIAS_RUN_DIR/x"', identity=SOMEBODY
    )
    assert bench.gone().status == 0, bench.gone()
    uid, gid = str(NOBODY.pw_uid), str(NOBODY.pw_gid)
    assert bench.output().splitlines() == [uid, gid, gid, f"{NOBODY.pw_dir} nobody"]
    assert (spec.job_dir / "x").stat().st_uid == NOBODY.pw_uid


@needs_root
def test_a_worker_has_no_group_of_the_manager(bench):
    own = os.getgroups()
    os.setgroups([*own, 4711])
    try:
        bench.shell("id -G", identity=SOMEBODY)
        assert bench.gone().status == 0, bench.gone()
    finally:
        os.setgroups(own)
    assert bench.output().split() == [str(NOBODY.pw_gid)]


@needs_root
def test_the_output_of_a_run_belongs_to_its_submitter(bench):
    spec = bench.shell("echo hello", identity=SOMEBODY)
    assert bench.gone().status == 0, bench.gone()
    found = spec.log(0).stat()
    assert (found.st_uid, found.st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid)


@needs_root
def test_a_worker_cannot_touch_the_records_of_its_run(bench):
    bench.shell(
        'cd "$TIRESIAS_RUN_DIR/.." && { rm -f claim.json; touch exit.json; mv job other; }', identity=SOMEBODY
    )
    assert bench.gone().status != 0
    assert (bench.specs[R1].run_dir / "claim.json").exists()
    assert bench.specs[R1].job_dir.exists()


@needs_root
def test_a_directory_that_only_root_may_enter_is_refused_to_the_submitter(bench):
    closed = bench.top / "closed"
    closed.mkdir(mode=0o700)
    bench.shell("exit 0", identity=SOMEBODY, cwd=str(closed))
    assert "closed': permission denied" in bench.gone().error


REFUSED = """
import os, sys
from pathlib import Path
from tiresias.executors.base import Identity
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench
top, uid = Path(sys.argv[1]), int(sys.argv[2])
if os.geteuid() != uid:
    os.setgroups([])
    os.setresuid(uid, uid, uid)
bench = Bench(LocalExecutor(top / "executor"), top)
bench.shell("exit 0", identity=Identity(4711, 4711, (), "ada", "/home/ada"))
print(bench.gone().error)
"""


def test_a_manager_that_is_not_root_refuses_runs_of_other_users(directory):
    directory.chmod(0o777)
    uid = NOBODY.pw_uid if IS_ROOT else os.geteuid()
    answer = subprocess.run(
        [sys.executable, "-c", REFUSED, str(directory), str(uid)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    expected = f"cannot run as ada (uid 4711): the manager is uid {uid}, not root\n"
    assert answer.stdout == expected, answer.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tiresias-test", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


@needs_root
def test_a_disk_that_is_full_at_the_start_is_named_in_the_exit(bench, small_disk):
    fill(small_disk)
    bench.shell("exit 0", run_dir=small_disk / "runs" / "1")
    gone = bench.gone()
    assert "no space left on device" in gone.error.lower()
    assert str(small_disk) in gone.error


@needs_root
def test_a_disk_that_fills_up_during_the_run_does_not_lose_its_exit(bench, small_disk):
    spec = bench.shell(f"until [ -e {bench.top}/go ]; do sleep 0.01; done; exit 9", run_dir=small_disk / "1")
    bench.up()
    fill(small_disk)
    (bench.top / "go").touch()
    assert bench.gone().status == 9
    later = LocalExecutor(bench.top / "later")
    assert later.adopt([spec]).gone == [R1]
    later.close()


@needs_root
def test_a_run_can_be_stopped_when_the_disk_is_full(bench, small_disk):
    bench.shell("exec sleep 600", run_dir=small_disk / "1")
    bench.up()
    fill(small_disk)
    bench.executor.stop(R1)
    assert bench.gone().stopped


@needs_root
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_run_is_killed_at_once_when_the_disk_is_full(bench, small_disk, is_stopping):
    bench.shell(
        f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done",
        run_dir=small_disk / "1",
        grace_s=86_400,
    )
    until((bench.top / "on").exists)
    if is_stopping:
        bench.executor.stop(R1)
    fill(small_disk)
    bench.executor.stop(R1, grace_s=0.0)
    gone = bench.gone()
    assert (gone.exits[0].signal, gone.killed, gone.stopped) == (9, True, True)


def test_a_run_directory_that_cannot_be_made_is_named_in_the_exit(bench):
    (bench.top / "runs").write_text("a file in the way")
    bench.shell("exit 0")
    gone = bench.gone()
    assert "Not a directory" in gone.error or "File exists" in gone.error
    assert "runs" in gone.error


def test_output_that_cannot_be_opened_is_named_in_the_exit(bench):
    spec = bench.spec("/bin/sh", "-c", "exit 0")
    spec.run_dir.mkdir(parents=True)
    spec.log(0).mkdir()
    bench.executor.start(spec)
    assert "cannot open the output file" in bench.gone().error


def test_output_is_never_written_through_a_link(bench):
    spec = bench.spec("/bin/sh", "-c", "echo secret")
    spec.run_dir.mkdir(parents=True)
    spec.log(0).symlink_to(bench.top / "elsewhere")
    bench.executor.start(spec)
    assert "cannot open the output file" in bench.gone().error
    assert not (bench.top / "elsewhere").exists()
