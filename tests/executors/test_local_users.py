"""Runs of other users: what they inherit from the submitter, and what not from the manager."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tiresias.api.callers import with_process
from tiresias.api.peers import Peer
from tiresias.executors.base import Identity
from tiresias.executors.directories import insecure, make_passage
from tiresias.executors.spawn_worker import KEYCTL
from tiresias.live import shared_folder
from tiresias.live.errors import Invalid
from tiresias.live.start import Options, open_manager
from tiresias.live.submission import Submission

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
ADA = Identity(54321, 54321, (54321, 54322, 54323), "ada", "/nonexistent")  # ids that need no account


def test_a_worker_has_the_supplementary_groups_of_its_user_and_no_others(bench):
    before = os.getgroups()
    os.setgroups([0, 54399])  # a group of the manager that no job may have
    try:
        bench.shell("id -u; id -g; id -G", identity=ADA)
        assert bench.gone().status == 0, bench.gone()
    finally:
        os.setgroups(before)
    assert bench.output() == "54321\n54321\n54321 54322 54323\n"


@pytest.mark.parametrize(("umask", "expected"), [(0o027, 0o027), (0o002, 0o002), (None, 0o022)])
def test_a_worker_has_the_umask_of_the_submitter_whatever_that_of_the_manager_is(bench, umask, expected):
    before = os.umask(0o077)
    try:
        bench.shell("umask", identity=replace(ADA, umask=umask))
        assert bench.gone().status == 0, bench.gone()
    finally:
        os.umask(before)
    assert bench.output() == f"{expected:04o}\n"


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_a_job_reaches_its_directory_whatever_umask_the_manager_has(bench, umask):
    before = os.umask(umask)
    try:
        spec = bench.shell('cd "$TIRESIAS_RUN_DIR" && echo 1 > x', identity=ADA)
        assert bench.gone().status == 0, bench.gone()
    finally:
        os.umask(before)
    modes = [each.stat().st_mode & 0o777 for each in (bench.top / "runs", spec.run_dir, spec.job_dir)]
    assert modes == [0o711, 0o711, 0o700]
    assert (spec.job_dir / "x").stat().st_uid == ADA.uid


@pytest.mark.parametrize("is_private", [True, False], ids=["a private one of root", "their own"])
def test_a_job_learns_nothing_of_a_directory_that_it_names_for_its_checkpoints(bench, is_private):
    """The supervisor, which is root, counts what a run has saved there."""
    private = bench.top / "private"
    private.mkdir(mode=0o700)
    if not is_private:
        os.chown(private, ADA.uid, ADA.gid)
    go_on = bench.top / "go-on"
    bench.shell(f"while ! test -e {go_on}; do sleep 0.02; done", identity=ADA, checkpoint_dir=str(private))
    bench.up()
    (private / "somebody-writes").write_text("a line")
    go_on.touch()
    assert bench.gone().files_saved == (None if is_private else 1)


def test_the_limits_of_the_submitter_are_handed_on(bench):
    limits = ((resource.RLIMIT_NOFILE, 123, 456), (resource.RLIMIT_CORE, 0, 0))
    bench.shell("ulimit -Sn; ulimit -Hn; ulimit -Hc", identity=replace(ADA, limits=limits))
    assert bench.gone().status == 0, bench.gone()
    assert bench.output() == "123\n456\n0\n"


def test_umask_and_limits_are_those_of_the_process_that_submits():
    client = subprocess.Popen(
        ["/bin/sh", "-c", "umask 037; ulimit -Sn 111; ulimit -Hn 222; echo on; exec sleep 600"],
        stdout=subprocess.PIPE,
        user=ADA.uid,
        group=ADA.gid,
        extra_groups=(),
        cwd="/",
    )
    assert client.stdout is not None
    try:
        client.stdout.readline()
        found = with_process(ADA, Peer(client.pid, ADA.uid, ADA.gid))
        assert found.umask == 0o037
        assert (resource.RLIMIT_NOFILE, 111, 222) in found.limits
        assert with_process(ADA, Peer(client.pid, 4711, 4711)) == ADA  # the pid is another user's by now
        stored = Submission(command=("true",), cwd="/", env={}, identity=found)
        assert Submission.from_json(stored.to_json()).identity == found
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()


# A manager with a key in its session keyring starts a run, which looks for the key.
KEY_HOLDER = """
import ctypes, sys
from pathlib import Path
from tiresias.executors.base import Identity
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench
libc, keyctl, add_key = ctypes.CDLL(None), int(sys.argv[2]), int(sys.argv[3])
assert libc.syscall(keyctl, 1, None) != -1
assert libc.syscall(add_key, b"user", b"tiresias-test", b"secret", 6, -3) != -1
top = Path(sys.argv[1])
bench = Bench(LocalExecutor(top / "executor"), top)
bench.shell("grep -c tiresias-test /proc/keys", identity=Identity(54321, 54321, (), "ada", "/"))
bench.gone()
print(bench.output(), end="")
"""


def test_a_job_cannot_read_a_key_of_the_manager(directory):
    keyctl = KEYCTL.get(platform.machine())
    if keyctl is None or ctypes.CDLL(None).syscall(keyctl, 0, -3, 1) == -1:
        pytest.skip("the kernel has no keyrings, or they may not be used here")
    add_key = 248 if platform.machine() == "x86_64" else 217
    answer = subprocess.run(
        [sys.executable, "-c", KEY_HOLDER, str(directory), str(keyctl), str(add_key)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert answer.stdout == "0\n", answer.stderr


@pytest.mark.parametrize("umask", [0o077, 0o027])
def test_a_home_is_passable_for_jobs_whatever_umask_the_manager_has(directory, umask):
    home = directory / "new" / "home"
    before = os.umask(umask)
    try:
        manager = open_manager(home, Options(fake_gpus=1))
    finally:
        os.umask(before)
    manager.executor.close()
    manager.store.close()
    passed = (home.parent, home, home / "jobs", home / "sdk")
    assert [each.stat().st_mode & 0o777 for each in passed] == [0o711] * 4
    assert (home / "journal.db").stat().st_mode & 0o777 == 0o600


# --- homes ----------------------------------------------------------------------------------------------


def test_a_home_below_a_directory_of_another_user_is_refused_to_root(directory):
    between = directory / "ada"
    between.mkdir()
    os.chown(between, ADA.uid, ADA.gid)
    with pytest.raises(Invalid, match=f"{between} belongs to uid {ADA.uid}; chown it to root"):
        open_manager(between / "home", Options(fake_gpus=1))
    assert not (between / "home" / "journal.db").exists()


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_home_in_a_directory_that_others_can_write_is_refused_to_root(directory, mode):
    home = directory / "open" / "home"
    make_passage(home)
    home.parent.chmod(mode)
    assert "can be written by others" in insecure(home)
    home.parent.chmod(mode | 0o1000)  # sticky, as /tmp is
    assert insecure(home) == ""
    home.chmod(mode | 0o1000)
    assert "can be written by others" in insecure(home)


@pytest.mark.parametrize("whose", ["the folder", "a directory in it"])
def test_a_folder_of_many_machines_that_others_can_write_is_refused_to_root(directory, whose):
    """They could put code in the place of what all runs import, or a link in that of a run directory."""
    shared = directory / "lab"
    shared.mkdir()
    assert shared_folder.checked(str(shared)) == shared
    if whose == "the folder":
        shared.chmod(0o1777)
    else:
        (shared / "sdk").mkdir()
        os.chown(shared / "sdk", ADA.uid, ADA.gid)
    with pytest.raises(Invalid, match=r"can be written by others|belongs to uid"):
        shared_folder.checked(str(shared))


def test_a_link_to_a_home_is_as_safe_as_what_it_leads_through(directory):
    (directory / "ada").mkdir()
    make_passage(directory / "home")
    link = directory / "ada" / "link"
    link.symlink_to(directory / "home")
    assert insecure(link) == ""
    os.chown(directory / "ada", ADA.uid, ADA.gid)
    assert "belongs to uid" in insecure(link)
