"""Runs whose supervisors are no children of the executor, and that keep a heartbeat in a shared folder."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiresias.executors import heartbeat, procfs, run_files
from tiresias.executors.base import Executor
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import R1, Bench, ExecutorContract, is_alive, paused, processes_of, until

LEASE_S = 2.0


def local(root: Path, lease_s: float = LEASE_S) -> LocalExecutor:
    cgroups = CgroupParent(None)
    return LocalExecutor(root, linger_s=0.2, cgroups=cgroups, detached=True, lease_s=lease_s)


class TestDetachedWithALease(ExecutorContract):
    """Everything that holds for the executor of one machine."""

    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = local(root, heartbeat.DEFAULT_LEASE_S)
        yield executor
        executor.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    executor = local(tmp_path / "executor")
    bench = Bench(executor, tmp_path)
    yield bench
    for run_id in bench.specs:
        executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(tmp_path), "nothing of any run is left")
    executor.close()


def supervisor_of(bench: Bench) -> int:
    claim = run_files.read(str(bench.specs[R1].run_dir), run_files.CLAIM)
    assert claim is not None
    return int(claim["pid"])


AGENT = """
import os, sys, time
from pathlib import Path
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench
top = Path(sys.argv[1])
bench = Bench(LocalExecutor(top / "executor", cgroups=CgroupParent(None), detached=True), top)
bench.shell("until [ -e go ]; do sleep 0.01; done; exit 7")
bench.up()
print("up", flush=True)
time.sleep(600)
"""


def test_a_supervisor_is_no_child_of_the_process_that_started_its_run(tmp_path):
    """A worker of Ray that ends kills its children."""
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path)], stdout=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert agent.stdout is not None
    assert agent.stdout.readline() == "up\n"

    def children() -> list[int]:
        return [each.pid for each in procfs.all_processes() if each.parent == agent.pid and each.alive]

    until(lambda: not children(), "what had started the supervisor has ended", within_s=60)
    agent.kill()
    agent.wait()
    agent.stdout.close()
    executor = local(tmp_path / "executor")
    bench = Bench(executor, tmp_path)
    assert executor.adopt([bench.spec("/bin/sh", "-c", "")]).running == [R1]
    (tmp_path / "go").touch()
    assert bench.gone().status == 7
    executor.close()


def test_the_heartbeat_grows_while_the_run_lives_and_stands_still_afterwards(bench):
    spec = bench.shell("exec sleep 600")
    bench.up()
    first = heartbeat.read(str(spec.run_dir))
    assert first > 0
    until(lambda: heartbeat.read(str(spec.run_dir)) > first + 2, "three more beats", within_s=60)
    bench.executor.stop(R1)
    bench.gone()
    assert not is_alive(supervisor_of(bench))
    assert heartbeat.read(str(bench.top / "nowhere")) == 0


@contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Put a directory in the place of a file, so that even root cannot write it."""
    path.unlink(missing_ok=True)
    path.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)


def test_a_run_that_cannot_keep_its_heartbeat_for_its_lease_is_ended(bench):
    spec = bench.shell("trap 'echo asked to stop; exit 75' TERM; while :; do sleep 0.01; done", workers=2)
    bench.up()
    with unwritable(spec.run_dir / heartbeat.FILE):
        gone = bench.gone()
    assert gone.lost
    assert not gone.stopped
    assert gone.error == "the shared folder could not be written for 2 s"
    assert [each.code for each in gone.exits] == [75, 75]
    assert "asked to stop" in bench.output()


def test_what_does_not_stop_within_its_grace_is_killed(bench):
    script = f"trap '' TERM; touch {bench.top}/on; while :; do sleep 0.01; done"
    spec = bench.shell(script, grace_s=0.3)
    until((bench.top / "on").exists)
    with unwritable(spec.run_dir / heartbeat.FILE):
        gone = bench.gone()
    assert gone.lost
    assert gone.exits[0].signal == signal.SIGKILL


def test_a_supervisor_that_was_paused_beyond_its_lease_ends_its_workers_when_it_wakes(bench):
    bench.shell("exec sleep 600")
    bench.up()
    with paused(supervisor_of(bench)):
        begun = heartbeat.now()
        until(lambda: heartbeat.now() > begun + LEASE_S, "the lease is over", within_s=60)
    assert bench.gone().lost


def test_a_run_can_be_stopped_through_the_folder_alone(bench):
    """The agent of its node may not answer while its supervisor still reaches the folder."""
    spec = bench.shell("exec sleep 600")
    bench.up()
    (spec.run_dir / run_files.STOP).write_text(json.dumps({"grace_s": 5.0}))
    gone = bench.gone()
    assert gone.stopped
    assert not gone.lost


PAUSER = """
import sys, time
from tiresias.testing.executors import paused
with paused(int(sys.argv[1])):
    print("paused", flush=True)
    time.sleep(600)
"""


def test_a_supervisor_that_killed_tests_have_paused_does_not_stay(bench):
    bench.shell("exec sleep 600")
    bench.up()
    pid = supervisor_of(bench)
    tests = subprocess.Popen([sys.executable, "-c", PAUSER, str(pid)], stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    assert tests.stdout.readline() == "paused\n"
    until(lambda: (process := procfs.look(pid)) is not None and process.state == "T", "it is paused")
    tests.kill()
    tests.wait()
    tests.stdout.close()
    until(lambda: (process := procfs.look(pid)) is None or process.state != "T", "it goes on", within_s=60)


def test_a_supervisor_whose_folder_was_removed_ends_with_its_workers(bench):
    """As after tests that were killed: nobody is left who could stop the run."""
    spec = bench.shell("exec sleep 600")
    bench.up()
    pid = supervisor_of(bench)
    shutil.rmtree(spec.run_dir)
    until(lambda: not is_alive(pid) and not processes_of(bench.top), "nothing is left", within_s=60)
